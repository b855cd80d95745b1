// Streaming with real (tiny) networks is bit-equal to the plain offline implementation.
#include <gtest/gtest.h>

#include "engine_fixture.h"
#include "offline.h"

namespace normalcrafter {
namespace {

using test::TinyModel;

struct Case {
  int frames;
  Size size;
  SessionOptions options;
};

SessionOptions options(int window, int step, int clip, int encode, int decode) {
  SessionOptions result;
  result.window_size = window;
  result.step_size = step;
  result.clip_chunk_size = clip;
  result.vae_encode_chunk_size = encode;
  result.vae_decode_chunk_size = decode;
  result.output_format = SampleFormat::F32;
  return result;
}

// Every parameter that may change the result takes several values, in 48 combinations.
std::vector<Case> cases() {
  const int windows[][2] = {{14, 10}, {4, 2}, {5, 4}, {3, 1}, {6, 6}, {2, 1}, {1, 1}, {7, 3}};
  const Size sizes[] = {{64, 64}, {33, 50}, {97, 65}, {1, 1}, {130, 20}, {64, 1}};
  const int lengths[] = {1, 2, 5, 9, 14, 15, 17, 24, 25, 31};
  std::vector<Case> result;
  for (int i = 0; i < 48; ++i) {
    const auto& window = windows[i % 8];
    Case c{lengths[(i * 7 + i / 8) % 10], sizes[(i * 5 + i / 6) % 6],
           options(window[0], window[1], 1 + i % 5, 1 + (i * 3) % 4, 1 + (i / 2) % 5)};
    c.options.windows_per_pass = 1 + i % 3;
    c.options.tail_mode = i % 4 == 3 ? TailMode::Repeat : TailMode::Anchored;
    c.options.clip_resize = i % 5 == 2 ? ClipResize::Original : ClipResize::Seed;
    c.options.max_resolution = i % 6 == 4 ? 48 : 1024;
    c.options.output_size = i % 7 == 3 ? OutputSize::Processed : OutputSize::Original;
    c.options.renormalize = i % 3 != 1;
    c.options.offload_mode = i % 2 == 0 ? OffloadMode::Staged : OffloadMode::Resident;
    if (i % 5 == 0) c.options.output_format = SampleFormat::U8;
    if (i % 5 == 3) c.options.output_format = SampleFormat::U16;
    result.push_back(c);
  }
  return result;
}

class RealNetworks : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { model_ = new TinyModel; }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  static TinyModel* model_;
};
TinyModel* RealNetworks::model_ = nullptr;

TEST_P(RealNetworks, StreamedIsBitEqualToOffline) {
  const Case c = cases()[GetParam()];
  const auto frames = test::random_frames(c.frames, c.size, GetParam());
  const auto stages = model_->open();
  const auto streamed = test::stream(stages, frames, c.options);
  const auto membership = stages->join(OffloadMode::Resident);
  const auto expected = test::offline_normals(*stages, frames, c.options);
  ASSERT_EQ(streamed.size(), expected.size());
  for (std::size_t i = 0; i < streamed.size(); ++i) {
    // As bytes: not every ATen kernel compares uint16.
    ASSERT_TRUE(at::equal(streamed[i].view(at::kByte), expected[i].view(at::kByte)))
        << "frame " << i << " of " << c.frames;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RealNetworks, ::testing::Range(0, 48));

TEST_F(RealNetworks, SeedsReachTheResult) {
  // A guard for the cases above: were overlaps ignored on both sides, they would still agree.
  const auto frames = test::random_frames(9, {64, 64}, 1);
  SessionOptions overlapping = options(4, 2, 4, 4, 1);
  SessionOptions apart = options(4, 4, 4, 4, 1);
  const auto stages = model_->open();
  const auto a = test::stream(stages, frames, overlapping);
  const auto b = test::stream(stages, frames, apart);
  EXPECT_GT((a[6] - b[6]).abs().max().item<float>(), 1e-3);
}

}  // namespace
}  // namespace normalcrafter
