// The CUDA kernels against plain ATen in float64 on the host.
#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "nn/cuda/tensors.h"
#include "stream/frame_tensors.h"

namespace normalcrafter {
namespace {

class CudaKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0)
      GTEST_SKIP() << "no CUDA device is here: the kernels are compiled, but not run";
    at::manual_seed(7);
  }
};

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf, at::kBFloat16};

at::Tensor on_device(const at::Tensor& x) {
  return x.to(at::Device(at::kCUDA));
}

// Half a unit in the last place at values up to `largest`, and some float32 rounding.
double rounding(at::ScalarType type, double largest) {
  if (type == at::kHalf) return largest * 0x1p-11 + 1e-5;
  if (type == at::kBFloat16) return largest * 0x1p-8 + 1e-5;
  return largest * 1e-5;
}

void expect_close(const at::Tensor& got, const at::Tensor& expected, at::ScalarType type) {
  const at::Tensor wanted = expected.to(at::kDouble);
  const double largest = std::max(1.0, wanted.abs().max().item<double>());
  EXPECT_LE((got.cpu().to(at::kDouble) - wanted).abs().max().item<double>(),
            rounding(type, largest))
      << got.sizes() << " " << type;
}

// x [n, ..., C] in float64.
at::Tensor reference_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          double eps, bool silu) {
  const at::Tensor nc =
      x.to(at::kDouble).reshape({x.size(0), -1, x.size(-1)}).transpose(1, 2).contiguous();
  at::Tensor y = at::group_norm(nc, 32, weight.to(at::kDouble), bias.to(at::kDouble), eps);
  if (silu) y = at::silu(y);
  return y.transpose(1, 2).reshape(x.sizes());
}

TEST_F(CudaKernels, GroupNormEqualsFloat64OverShapesAndTypes) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{1, 1, 1, 32},
                              {2, 5, 7, 96},
                              {3, 40, 33, 320},
                              {1, 9, 9, 2560},
                              {14, 36, 64, 640}}) {
      for (const bool silu : {false, true}) {
        const at::Tensor x = at::randn(shape).to(type);
        const at::Tensor weight = at::rand({shape[3]}) + 0.5;
        const at::Tensor bias = at::randn({shape[3]});
        const at::Tensor given = on_device(x);
        at::Tensor y = at::empty_like(given);
        cuda::group_norm(given, y, on_device(weight), on_device(bias), 1e-5, silu);
        expect_close(y, reference_norm(x, weight, bias, 1e-5, silu), type);
      }
    }
  }
}

TEST_F(CudaKernels, GroupNormKeepsItsDigitsWhenTheMeanIsLargeAgainstTheDeviation) {
  const at::Tensor x = at::randn({2, 48, 64, 64}) * 0.01 + 1;
  const at::Tensor weight = at::ones({64});
  const at::Tensor bias = at::zeros({64});
  at::Tensor y = on_device(x);
  cuda::group_norm(y, y, on_device(weight), on_device(bias), 1e-6, false);
  const at::Tensor expected = reference_norm(x, weight, bias, 1e-6, false);
  EXPECT_LT((y.cpu().to(at::kDouble) - expected).abs().max().item<double>(), 1e-4);
}

TEST_F(CudaKernels, GroupNormInPlaceAndRepeatedGivesEqualBits) {
  const at::Tensor x = on_device(at::randn({2, 31, 17, 128}).to(at::kHalf));
  const at::Tensor weight = on_device(at::rand({128}));
  const at::Tensor bias = on_device(at::rand({128}));
  at::Tensor apart = at::empty_like(x);
  at::Tensor in_place = x.clone();
  cuda::group_norm(x, apart, weight, bias, 1e-5, true);
  cuda::group_norm(in_place, in_place, weight, bias, 1e-5, true);
  EXPECT_TRUE(at::equal(apart, in_place));
}

TEST_F(CudaKernels, GegluEqualsFloat64AlsoForWidthsThatVectorsDoNotDivide) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{1, 2}, {5, 3, 14}, {77, 2560}, {3, 9216, 320}}) {
      const at::Tensor x = (at::randn(shape) * 3).to(type);
      const auto halves = x.to(at::kDouble).chunk(2, -1);
      expect_close(cuda::geglu(on_device(x)), halves[0] * at::gelu(halves[1]), type);
    }
  }
}

FrameView view(const at::Tensor& frame) {
  const bool bytes = frame.scalar_type() == at::kByte;
  FrameView result;
  result.data = frame.const_data_ptr();
  result.size = {static_cast<int>(frame.size(1)), static_cast<int>(frame.size(0))};
  result.row_stride = frame.size(1) * 3 * (bytes ? 1 : 2);
  result.format = bytes ? SampleFormat::U8 : SampleFormat::U16;
  return result;
}

TEST_F(CudaKernels, IngestEqualsTheHostsReadingPaddingAndResizing) {
  for (const at::ScalarType sample : {at::kByte, at::kUInt16}) {
    for (const Size size : {Size{96, 65}, {200, 150}, {640, 363}}) {
      const int most = sample == at::kByte ? 256 : 65536;
      const at::Tensor frames =
          at::randint(most, {2, size.height, size.width, 3}, at::kInt).to(sample);
      const FrameGeometry geometry = frame_geometry(size, 160, 64, OutputSize::Original);
      const at::Tensor expected = padded_batch(
          {read_picture(view(frames[0]), geometry), read_picture(view(frames[1]), geometry)},
          geometry);
      const cuda::FrameIngest ingest(geometry, on_device(frames).device());
      for (const at::ScalarType type : kTypes) {
        for (const bool channels_last : {false, true}) {
          const at::Tensor got = ingest(on_device(frames), type, {2, -1}, channels_last);
          expect_close(got, expected.to(at::kDouble) * 2 - 1, type);
        }
      }
    }
  }
}

TEST_F(CudaKernels, OutputEqualsTheHostsWithinOneCode) {
  for (const SampleFormat format : {SampleFormat::U8, SampleFormat::U16, SampleFormat::F32}) {
    for (const Size size : {Size{96, 65}, {200, 150}}) {
      const FrameGeometry geometry = frame_geometry(size, 160, 64, OutputSize::Original);
      SessionOptions options;
      options.output_format = format;
      options.flip_y = true;
      for (const bool renormalize : {false, true}) {
        options.renormalize = renormalize;
        const at::Tensor vectors = at::randn({2, 3, geometry.padded.height, geometry.padded.width});
        const at::Tensor expected = finish_normals(vectors, geometry, options);
        const at::Tensor got = cuda::finish_normals(
            on_device(vectors).contiguous(at::MemoryFormat::ChannelsLast), geometry, options);
        const double worst =
            (got.cpu().to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
        // Float32 positions around 160 are 1.5e-5 apart, and the picture is noise.
        EXPECT_LE(worst, format == SampleFormat::F32 ? 2e-4 : 1.0);
      }
    }
  }
}

}  // namespace
}  // namespace normalcrafter
