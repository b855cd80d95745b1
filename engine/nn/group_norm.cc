#include "nn/group_norm.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <vector>

#include "nn/cpu/kernels.h"
#include "nn/cuda/tensors.h"

namespace normalcrafter {
namespace {

// Pixels a block of statistics: about 64 KiB of float32, so that its second pass reads the cache.
// Independent of the number of threads, which keeps the result so too.
int64_t block_pixels(int64_t channels) {
  return std::max<int64_t>(16, 16384 / channels);
}

struct Moments {
  std::vector<float> mean;   // [channels]
  std::vector<float> scale;  // [channels]
};

template <typename T>
Moments channel_moments(const T* x, int64_t pixels, int64_t channels, double eps,
                        const float* weight, const cpu::NormKernels<T>& kernels) {
  constexpr int64_t kGroups = GroupNorm::kGroups;
  const int64_t block = block_pixels(channels);
  const int64_t blocks = (pixels + block - 1) / block;
  std::vector<double> means(blocks * kGroups);
  std::vector<double> m2s(blocks * kGroups);
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(2 * channels);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t count = std::min(block, pixels - b * block);
      kernels.moments(x + b * block * channels, count, channels, kGroups, scratch.data(),
                      means.data() + b * kGroups, m2s.data() + b * kGroups);
    }
  });
  const int64_t width = channels / kGroups;
  Moments result{std::vector<float>(channels), std::vector<float>(channels)};
  for (int64_t g = 0; g < kGroups; ++g) {
    double count = 0;
    double mean = 0;
    double m2 = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      const double n = static_cast<double>(std::min(block, pixels - b * block) * width);
      const double delta = means[b * kGroups + g] - mean;
      m2 += m2s[b * kGroups + g] + delta * delta * count * n / (count + n);
      mean += delta * n / (count + n);
      count += n;
    }
    const double rstd = 1.0 / std::sqrt(m2 / count + eps);
    for (int64_t c = g * width; c < (g + 1) * width; ++c) {
      result.mean[c] = static_cast<float>(mean);
      result.scale[c] = static_cast<float>(rstd * weight[c]);
    }
  }
  return result;
}

template <typename T>
void group_norm_cpu(const at::Tensor& x, at::Tensor& y, const at::Tensor& weight,
                    const at::Tensor& bias, double eps, bool silu,
                    const cpu::NormKernels<T>& kernels) {
  const int64_t channels = x.size(-1);
  const int64_t items = x.size(0);
  const int64_t pixels = x.numel() / (items * channels);
  const float* shift = bias.const_data_ptr<float>();
  const int64_t block = block_pixels(channels);
  const auto* from = static_cast<const T*>(x.const_data_ptr());
  auto* to = static_cast<T*>(y.mutable_data_ptr());
  for (int64_t n = 0; n < items; ++n, from += pixels * channels, to += pixels * channels) {
    const Moments moments =
        channel_moments<T>(from, pixels, channels, eps, weight.const_data_ptr<float>(), kernels);
    at::parallel_for(0, pixels, block, [&](int64_t begin, int64_t end) {
      kernels.normalize(from + begin * channels, to + begin * channels, end - begin, channels,
                        moments.mean.data(), moments.scale.data(), shift, silu);
    });
  }
}

bool has_cpu_kernels(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

bool has_kernels(const at::Tensor& x) {
  if constexpr (cuda::kCompiled) {
    if (cuda::has_kernels(x) && x.size(-1) <= cuda::kMostGroupNormChannels) return true;
  }
  return has_cpu_kernels(x);
}

// Any other device or type: the same arithmetic by ATen, statistics in float32 in two passes.
at::Tensor group_norm_aten(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           double eps, bool silu) {
  const int64_t channels = x.size(-1);
  at::Tensor v =
      x.to(at::kFloat).reshape({x.size(0), -1, GroupNorm::kGroups, channels / GroupNorm::kGroups});
  v = v - v.mean({1, 3}, true);
  v = v * (v.square().mean({1, 3}, true) + eps).rsqrt();
  v = v.reshape(x.sizes()) * weight + bias;
  if (silu) v = at::silu(v);
  return v.to(x.scalar_type());
}

}  // namespace

GroupNorm::GroupNorm(const Weights& weights, int channels, double eps)
    : weight_(weights.get_float("weight", {channels}).to(weights.device())),
      bias_(weights.get_float("bias", {channels}).to(weights.device())),
      eps_(eps) {}

// By the kernels, into y, which may be x.
void GroupNorm::compute(const at::Tensor& x, at::Tensor& y, bool silu) const {
  if constexpr (cuda::kCompiled) {
    if (x.is_cuda()) return cuda::group_norm(x, y, weight_, bias_, eps_, silu);
  }
  if (x.scalar_type() == at::kFloat) {
    group_norm_cpu<float>(x, y, weight_, bias_, eps_, silu, cpu::kernels().f32);
  } else {
    group_norm_cpu<cpu::BFloat16Bits>(x, y, weight_, bias_, eps_, silu, cpu::kernels().bf16);
  }
}

at::Tensor GroupNorm::apply(const at::Tensor& x, bool silu) const {
  if (!has_kernels(x)) return group_norm_aten(x, weight_, bias_, eps_, silu);
  at::Tensor y = at::empty_like(x);
  compute(x, y, silu);
  return y;
}

void GroupNorm::silu_in_place(at::Tensor& x) const {
  if (has_kernels(x)) {
    compute(x, x, true);
  } else {
    x = group_norm_aten(x, weight_, bias_, eps_, true);
  }
}

namespace {

template <typename T>
at::Tensor geglu_cpu(const at::Tensor& x, const cpu::NormKernels<T>& kernels) {
  const int64_t width = x.size(-1) / 2;
  auto shape = x.sizes().vec();
  shape.back() = width;
  at::Tensor y = at::empty(shape, x.options());
  const auto* from = static_cast<const T*>(x.const_data_ptr());
  auto* to = static_cast<T*>(y.mutable_data_ptr());
  at::parallel_for(0, x.numel() / (2 * width), std::max<int64_t>(1, 16384 / width),
                   [&](int64_t begin, int64_t end) {
                     kernels.geglu(from + begin * 2 * width, to + begin * width, end - begin,
                                   width);
                   });
  return y;
}

}  // namespace

at::Tensor geglu(const at::Tensor& x) {
  if constexpr (cuda::kCompiled) {
    if (cuda::has_kernels(x)) return cuda::geglu(x);
  }
  if (x.is_cpu() && x.is_contiguous()) {
    if (x.scalar_type() == at::kFloat) return geglu_cpu<float>(x, cpu::kernels().f32);
    if (x.scalar_type() == at::kBFloat16)
      return geglu_cpu<cpu::BFloat16Bits>(x, cpu::kernels().bf16);
  }
  const auto halves = x.chunk(2, -1);
  return halves[0] * at::gelu(halves[1]);
}

void gelu_in_place(at::Tensor& x) {
  if (!has_cpu_kernels(x) || !x.is_contiguous()) {
    at::gelu_(x);
    return;
  }
  constexpr int64_t kBlock = 16384;
  void* const data = x.mutable_data_ptr();
  const bool is_float = x.scalar_type() == at::kFloat;
  at::parallel_for(0, x.numel(), kBlock, [&](int64_t begin, int64_t end) {
    if (is_float) {
      cpu::kernels().f32.gelu(static_cast<float*>(data) + begin, end - begin);
    } else {
      cpu::kernels().bf16.gelu(static_cast<cpu::BFloat16Bits*>(data) + begin, end - begin);
    }
  });
}

}  // namespace normalcrafter
