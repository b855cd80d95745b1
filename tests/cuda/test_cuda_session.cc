// Whole sessions on a GPU: the CPU's numbers in every mode, and memory that is given back.
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include "engine_fixture.h"

namespace normalcrafter {
namespace {

// What libraries keep for the process, cuBLAS above all; LibTorch counts it as allocated.
constexpr std::uint64_t kWorkspaces = std::uint64_t{64} << 20;
constexpr OffloadMode kModes[] = {OffloadMode::Staged, OffloadMode::Resident,
                                  OffloadMode::Streamed};

class CudaSession : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0)
      GTEST_SKIP() << "no CUDA device is here";
  }

  std::shared_ptr<LoadedModel> open(const char* device, Dtype dtype = Dtype::Float32) const {
    ModelOptions options = tiny_.options(dtype);
    options.device = device;
    return open_shared_model(options, {});
  }
  static SessionOptions options(OffloadMode mode) {
    SessionOptions result;
    result.window_size = 4;
    result.step_size = 3;
    result.offload_mode = mode;
    result.output_format = SampleFormat::F32;
    return result;
  }
  static double worst(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    EXPECT_EQ(a.size(), b.size());
    double result = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      result = std::max(result, (a[i] - b[i]).abs().max().item<double>());
    return result;
  }

  test::TinyModel tiny_;
};

TEST_F(CudaSession, EveryModeGivesTheCpusFloat32AndTheSameBitsAsTheOthers) {
  // Resized too, so that the ingest's tables take part.
  for (const Size size : {Size{128, 128}, {150, 140}}) {
    const auto frames = test::random_frames(9, size, 3);
    SessionOptions wanted = options(OffloadMode::Staged);
    wanted.max_resolution = 128;
    const auto expected = test::stream(open("cpu"), frames, wanted);
    std::vector<at::Tensor> first;
    for (const OffloadMode mode : kModes) {
      wanted.offload_mode = mode;
      const auto got = test::stream(open("cuda"), frames, wanted);
      EXPECT_LT(worst(got, expected), 5e-4) << "mode " << static_cast<int>(mode);
      if (first.empty()) first = got;
      EXPECT_EQ(worst(got, first), 0) << "mode " << static_cast<int>(mode);
    }
  }
}

TEST_F(CudaSession, Float16IsTheDefaultAndWithinADegreeInTheMean) {
  const auto model = open("cuda", Dtype::Auto);
  EXPECT_EQ(model->info().dtype, Dtype::Float16);
  const auto frames = test::random_frames(6, {128, 128}, 3);
  const auto expected = test::stream(open("cpu"), frames, options(OffloadMode::Staged));
  const auto got = test::stream(model, frames, options(OffloadMode::Staged));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const at::Tensor cosine = (got[i] * expected[i]).sum(-1).clamp(-1, 1);
    EXPECT_LT(at::rad2deg(at::acos(cosine)).mean().item<double>(), 1.0);
  }
}

TEST_F(CudaSession, GivesTheMemoryBackAfterAClip) {
  const auto frames = test::random_frames(5, {128, 128}, 3);
  for (const OffloadMode mode : kModes) {
    const auto model = open("cuda");
    test::stream(model, frames, options(mode));
    const DeviceStats stats = model->device_stats();
    EXPECT_LT(stats.memory.allocated, kWorkspaces);
    EXPECT_LT(stats.memory.reserved, kWorkspaces);
    EXPECT_GT(stats.memory.peak, 0U);
    EXPECT_GT(stats.upload_bytes[static_cast<int>(Stage::Unet)], 0U);
    EXPECT_GT(stats.upload_seconds[static_cast<int>(Stage::Unet)], 0.0);
  }
}

TEST_F(CudaSession, TooLittleMemoryIsOneErrorAndTheSessionGoesOn) {
  const auto model = open("cuda");
  std::optional<at::Tensor> others;
  {
    const auto device = make_transfer_device(at::Device(at::kCUDA, 0));
    others = device->allocate(device->budget() - (std::uint64_t{64} << 20));
  }
  SessionCallbacks callbacks;
  callbacks.frame = [](const NormalView&) {};
  const auto session = make_stream_session(model, options(OffloadMode::Staged), callbacks);
  const auto push_all = [&](Size size) {
    for (const auto& frame : test::random_frames(5, size, 3)) session->push(test::view_of(frame));
    session->finish();
  };
  testing::expect_error(
      ErrorCode::OutOfMemory,
      [&] {
        push_all({1024, 1024});
      },
      "max-resolution");
  others.reset();
  EXPECT_LT(model->device_stats().memory.allocated, kWorkspaces);
  session->reset();
  push_all({64, 64});
  EXPECT_EQ(session->stats().frames_out, 5U);
}

}  // namespace
}  // namespace normalcrafter
