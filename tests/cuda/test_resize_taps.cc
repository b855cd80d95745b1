#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/cuda/resize_taps.h"

namespace normalcrafter::cuda {
namespace {

// image [1,1,H,W] float64.
at::Tensor along_rows(const at::Tensor& image, int to) {
  const int from = static_cast<int>(image.size(3));
  const ResizeTaps taps = resize_taps(from, to);
  at::Tensor matrix = at::zeros({from, to}, at::kDouble);
  for (int i = 0; i < to; ++i) {
    for (int k = 0; k < taps.count; ++k) {
      const float weight = taps.weights[i * taps.count + k];
      if (weight != 0) matrix[taps.first[i] + k][i] = weight;
    }
  }
  return at::matmul(image, matrix);
}

TEST(ResizeTaps, ResizeAsPyTorchsAntialiasedBicubicDoes) {
  at::manual_seed(1);
  for (const auto& [from, to] : {std::pair{3840, 1024}, {100, 33}, {33, 100}, {64, 64}, {7, 2}}) {
    const at::Tensor image = at::rand({1, 1, 3, from}, at::kDouble);
    const at::Tensor expected = at::_upsample_bicubic2d_aa(image, {3, to}, false);
    EXPECT_LT((along_rows(image, to) - expected).abs().max().item<double>(), 1e-6)
        << from << " to " << to;
  }
}

TEST(ResizeTaps, KeepAConstantAndStayInsideTheSource) {
  for (int from = 1; from < 60; ++from) {
    for (int to = 1; to <= from; ++to) {
      const ResizeTaps taps = resize_taps(from, to);
      for (int i = 0; i < to; ++i) {
        ASSERT_GE(taps.first[i], 0);
        double sum = 0;
        for (int k = 0; k < taps.count; ++k) {
          const float weight = taps.weights[i * taps.count + k];
          ASSERT_TRUE(weight == 0 || taps.first[i] + k < from);
          sum += weight;
        }
        ASSERT_NEAR(sum, 1, 1e-6) << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace normalcrafter::cuda
