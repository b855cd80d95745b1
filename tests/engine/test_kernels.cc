// Every instruction set's copy of the CPU kernels that this processor runs, not only the one that
// it would choose, against plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "nn/cpu/kernel_sets.h"

namespace normalcrafter::cpu {

namespace {

using Floats = std::vector<float>;

struct KernelSet {
  const char* name;
  const AttentionKernels* attention;
  const Kernels* kernels;
  const GemmKernels* gemm;
  const WinogradKernels* winograd;
};

std::vector<KernelSet> runnable_sets() {
  std::vector<KernelSet> sets = {
      {"baseline", &attention_baseline, &kernels_baseline, &gemm_baseline, &winograd_baseline}};
#ifdef NORMALCRAFTER_X86_KERNELS
  if (runs_avx2())
    sets.push_back({"avx2", &attention_avx2, &kernels_avx2, &gemm_avx2, &winograd_avx2});
  if (runs_avx512())
    sets.push_back({"avx512", &attention_avx512, &kernels_avx512, &gemm_avx512, &winograd_avx512});
  if (runs_avx512bf16())
    sets.push_back(
        {"avx512bf16", &attention_avx512bf16, &kernels_avx512, &gemm_avx512bf16, &winograd_avx512});
#endif
  return sets;
}

Floats noise(std::size_t count, float deviation = 1) {
  static std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, deviation);
  Floats values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

class EveryInstructionSet : public ::testing::TestWithParam<KernelSet> {
 protected:
  const AttentionKernels& attention() const { return *GetParam().attention; }
  const Kernels& kernels() const { return *GetParam().kernels; }
  const GemmKernels& gemm() const { return *GetParam().gemm; }
  const WinogradKernels& winograd() const { return *GetParam().winograd; }
};

TEST_P(EveryInstructionSet, ComputesMomentsOfGroups) {
  constexpr int kPixels = 37;
  constexpr int kChannels = 96;
  constexpr int kGroups = 32;
  const Floats x = noise(kPixels * kChannels);
  Floats scratch(2 * kChannels);
  double means[kGroups];
  double m2s[kGroups];
  kernels().f32.moments(x.data(), kPixels, kChannels, kGroups, scratch.data(), means, m2s);
  for (int group = 0; group < kGroups; ++group) {
    double sum = 0;
    double squares = 0;
    for (int p = 0; p < kPixels; ++p) {
      for (int c = 3 * group; c < 3 * group + 3; ++c) {
        sum += x[p * kChannels + c];
        squares += static_cast<double>(x[p * kChannels + c]) * x[p * kChannels + c];
      }
    }
    const double mean = sum / (3 * kPixels);
    EXPECT_NEAR(means[group], mean, 1e-6);
    EXPECT_NEAR(m2s[group], squares - sum * mean, 1e-3);
  }
}

TEST_P(EveryInstructionSet, NormalisesWithSilu) {
  constexpr int kChannels = 37;  // no multiple of any vector
  const Floats x = noise(5 * kChannels, 3);
  const Floats mean = noise(kChannels);
  const Floats scale = noise(kChannels);
  const Floats shift = noise(kChannels);
  Floats y(x.size());
  kernels().f32.normalize(x.data(), y.data(), 5, kChannels, mean.data(), scale.data(), shift.data(),
                          true);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % kChannels;
    const double v = (static_cast<double>(x[i]) - mean[c]) * scale[c] + shift[c];
    EXPECT_NEAR(y[i], v / (1 + std::exp(-v)), 1e-5);
  }
}

TEST_P(EveryInstructionSet, MultipliesByTheGelu) {
  constexpr int kWidth = 83;
  const Floats x = noise(3 * 2 * kWidth, 2);
  Floats y(3 * kWidth);
  kernels().f32.geglu(x.data(), y.data(), 3, kWidth);
  for (int row = 0; row < 3; ++row) {
    for (int i = 0; i < kWidth; ++i) {
      const double value = x[row * 2 * kWidth + i];
      const double gate = x[row * 2 * kWidth + kWidth + i];
      EXPECT_NEAR(y[row * kWidth + i], value * gate * 0.5 * (1 + std::erf(gate / std::sqrt(2.0))),
                  1e-5);
    }
  }
}

TEST_P(EveryInstructionSet, ActivatesExtremesAndNothingBeyondTheEnd) {
  constexpr float kUntouched = 1234;
  const Floats values = {-1e30F, -200, -88.5F, -87.5F, -3.9F, -0.0F, 1e-30F, 3.9F, 88.5F, 1e30F};
  Floats x;  // longer than a vector, and no multiple of one
  for (int i = 0; i < 21; ++i) x.push_back(values[i % values.size()]);
  x.push_back(NAN);
  const std::size_t count = x.size();
  const Floats zeros(count, 0);
  const Floats ones(count, 1);
  Floats silu(count + 1, kUntouched);
  kernels().f32.normalize(x.data(), silu.data(), 1, static_cast<std::int64_t>(count), zeros.data(),
                          ones.data(), zeros.data(), true);
  Floats gelu = x;
  gelu.push_back(kUntouched);
  kernels().f32.gelu(gelu.data(), static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const double v = x[i];
    // Far below zero the bounded exponential leaves 1e-38 of the value in place of nothing.
    EXPECT_NEAR(silu[i], v / (1 + std::exp(-v)), 1e-6 * std::abs(v)) << v;
    EXPECT_NEAR(gelu[i], v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))), 1e-6 * std::abs(v)) << v;
  }
  EXPECT_TRUE(std::isnan(silu[count - 1]));
  EXPECT_TRUE(std::isnan(gelu[count - 1]));
  EXPECT_EQ(silu[count], kUntouched);
  EXPECT_EQ(gelu[count], kUntouched);
}

TEST_P(EveryInstructionSet, RoundsActivationsToBfloat16) {
  constexpr int kWidth = 21;
  const Floats wide = noise(kWidth, 3);
  std::vector<BFloat16Bits> x;
  for (const float value : wide)
    x.push_back(static_cast<BFloat16Bits>(std::bit_cast<std::uint32_t>(value) >> 16));
  const auto as_double = [](BFloat16Bits bits) {
    return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
  };
  std::vector<BFloat16Bits> y = x;
  kernels().bf16.gelu(y.data(), kWidth);
  for (int i = 0; i < kWidth; ++i) {
    const double v = as_double(x[i]);
    const double expected = v * 0.5 * (1 + std::erf(v / std::sqrt(2.0)));
    EXPECT_NEAR(as_double(y[i]), expected, std::abs(expected) / 256 + 1e-6) << v;
  }
}

TEST_P(EveryInstructionSet, MultipliesAnyNumberOfRowsFromABiasOrOnTopOfASum) {
  constexpr int kDepth = 23;
  const int panel = gemm().panel;
  const Floats b = noise(kDepth * panel);
  const Floats bias = noise(panel);
  for (const int rows : {1, 3, 4, 6, 11, 12, 13, 29}) {
    const int stride = panel + 5;  // rows of c may lie apart
    const Floats a = noise(rows * (kDepth + 3));
    const Floats before = noise(rows * stride);
    for (const bool accumulate : {false, true}) {
      Floats c = before;
      gemm().multiply({a.data(), kDepth + 3, rows, kDepth, b.data(), c.data(), stride, bias.data(),
                       accumulate});
      for (int at = 0; at < rows * stride; ++at) {
        const int row = at / stride;
        const int column = at % stride;
        if (column >= panel) {
          ASSERT_EQ(c[at], before[at]) << "between the rows";
          continue;
        }
        double expected = accumulate ? before[at] : bias[column];
        for (int k = 0; k < kDepth; ++k)
          expected += static_cast<double>(a[row * (kDepth + 3) + k]) * b[k * panel + column];
        ASSERT_NEAR(c[at], expected, 2e-5) << rows << " rows, value " << at;
      }
    }
  }
}

/// Rows of q, k, v and of the result that lie further apart than they are long.
template <typename T>
struct AttentionCase {
  int queries, keys, depth, stride;
  std::vector<T> q, k, v, out;

  AttentionCase(int query_count, int key_count, int width, T (*element)(float))
      : queries(query_count), keys(key_count), depth(width), stride(width + 6) {
    const auto values = [&](int rows, float deviation) {
      std::vector<T> result;
      for (const float value : noise(rows * stride, deviation)) result.push_back(element(value));
      return result;
    };
    q = values(queries, 2);  // so that some weights are near 1
    k = values(keys, 1);
    v = values(keys, 1);
    out = values(queries, 1);
  }

  void run(const AttentionKernel<T>& kernel) {
    Floats scratch(kernel.scratch(keys, depth));
    kernel.attend({.q = q.data(),
                   .k = k.data(),
                   .v = v.data(),
                   .out = out.data(),
                   .q_stride = stride,
                   .k_stride = stride,
                   .v_stride = stride,
                   .out_stride = stride,
                   .queries = queries,
                   .keys = keys,
                   .depth = depth,
                   .scale = 1 / std::sqrt(static_cast<float>(depth))},
                  scratch.data());
  }

  /// One row of the result, by its definition. number: an element's value.
  std::vector<double> expected(int query, double (*number)(T)) const {
    std::vector<double> weights(keys);
    double most = -1e30;
    for (int j = 0; j < keys; ++j) {
      for (int c = 0; c < depth; ++c)
        weights[j] += number(q[query * stride + c]) * number(k[j * stride + c]);
      weights[j] /= std::sqrt(static_cast<double>(depth));
      most = std::max(most, weights[j]);
    }
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    std::vector<double> row(depth);
    for (int j = 0; j < keys; ++j) {
      for (int c = 0; c < depth; ++c) row[c] += weights[j] / sum * number(v[j * stride + c]);
    }
    return row;
  }

  void check(double (*number)(T), double tolerance) const {
    for (int query = 0; query < queries; ++query) {
      const auto row = expected(query, number);
      for (int c = 0; c < depth; ++c)
        ASSERT_NEAR(number(out[query * stride + c]), row[c], tolerance)
            << queries << " queries, " << keys << " keys of " << depth << ": " << query << ", "
            << c;
    }
  }
};

struct AttentionSize {
  int queries, keys, depth;
};
// Fewer and more than a block of queries, of keys, and than a panel of columns.
constexpr AttentionSize kAttentionSizes[] = {{1, 1, 2},     {1, 257, 80},  {14, 14, 64},
                                             {25, 31, 16},  {30, 257, 80}, {7, 900, 64},
                                             {24, 384, 40}, {3, 770, 130}};

TEST_P(EveryInstructionSet, AttendsToAnyNumberOfKeys) {
  for (const auto& [queries, keys, depth] : kAttentionSizes) {
    AttentionCase<float> one(queries, keys, depth, [](float value) { return value; });
    one.run(attention().f32);
    one.check([](float value) -> double { return value; }, 1e-5);
  }
}

TEST_P(EveryInstructionSet, WritesNothingBesideTheRowsOfAttention) {
  AttentionCase<float> one(5, 40, 18, [](float value) { return value; });
  const Floats before = one.out;
  one.run(attention().f32);
  for (int at = 0; at < 5 * one.stride; ++at) {
    if (at % one.stride >= one.depth) {
      ASSERT_EQ(one.out[at], before[at]);
    }
  }
}

#ifdef NORMALCRAFTER_X86_KERNELS
BFloat16Bits rounded(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<BFloat16Bits>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
double widened(BFloat16Bits bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

TEST(BFloat16Attention, DiffersByItsOwnRounding) {
  if (!runs_avx512bf16()) GTEST_SKIP() << "no avx512_bf16 here";
  for (const auto& [queries, keys, depth] : kAttentionSizes) {
    AttentionCase<BFloat16Bits> one(queries, keys, depth, rounded);
    one.run(attention_avx512bf16.bf16);
    // Values up to 4, and weights of 8 bits each.
    one.check(widened, 0.02);
  }
}
#endif

#ifdef NORMALCRAFTER_X86_KERNELS
TEST(BFloat16Gemm, IsRoundedOnceAtTheEnd) {
  if (!runs_avx512bf16()) GTEST_SKIP() << "no avx512_bf16 here";
  constexpr int kPairs = 23;
  const GemmKernels& gemm = gemm_avx512bf16;
  std::vector<BFloat16Bits> a, b;
  for (const float value : noise(29 * 2 * kPairs)) a.push_back(rounded(value));
  for (const float value : noise(2 * kPairs * gemm.panel)) b.push_back(rounded(value));
  const Floats bias = noise(gemm.panel);
  for (const int rows : {1, 3, 4, 6, 11, 12, 13, 29}) {
    const int stride = gemm.panel + 5;
    std::vector<BFloat16Bits> y(rows * stride, 7);
    gemm.multiply_bf16({.a = reinterpret_cast<const BFloat16Pair*>(a.data()),
                        .a_stride = kPairs,
                        .rows = rows,
                        .depth = kPairs,
                        .b = reinterpret_cast<const BFloat16Pair*>(b.data()),
                        .bias = bias.data(),
                        .rounded = y.data(),
                        .rounded_stride = stride});
    for (int at = 0; at < rows * stride; ++at) {
      const int column = at % stride;
      if (column >= gemm.panel) {
        ASSERT_EQ(y[at], 7) << "between the rows";
        continue;
      }
      double expected = bias[column];
      for (int k = 0; k < 2 * kPairs; ++k)
        expected += widened(a[at / stride * 2 * kPairs + k]) *
                    widened(b[(k / 2 * gemm.panel + column) * 2 + k % 2]);
      ASSERT_NEAR(widened(y[at]), expected, std::abs(expected) / 256 + 2e-5) << rows << " rows";
    }
  }
}
#endif

/// One tile through the three steps: v [positions, in] times u [positions, in, panel] is m.
void multiply_positions(const GemmKernels& set, int positions, int in, const Floats& v,
                        const Floats& u, Floats& m) {
  for (int i = 0; i < positions; ++i) {
    set.multiply({.a = v.data() + i * in,
                  .a_stride = in,
                  .rows = 1,
                  .depth = in,
                  .b = u.data() + i * in * set.panel,
                  .c = m.data() + i * set.panel,
                  .c_stride = set.panel});
  }
}

TEST_P(EveryInstructionSet, ConvolvesByWinogradUpToThePicturesEdges) {
  const WinogradKernels& set = winograd();
  constexpr int kIn = 32;
  const int out = set.panel;
  for (const auto& [height, width] : {std::pair{1, 1}, {4, 4}, {5, 7}, {2, 9}}) {
    const Floats x = noise(height * width * kIn);
    const Floats weights = noise(kIn * 9 * out, 0.1F);  // [in, 3, 3, panel]
    const Floats bias = noise(out);
    Floats u(36 * kIn * out);
    Floats v(36 * kIn);
    Floats m(36 * out);
    Floats y(height * width * out);
    set.f32.weights(weights.data(), 0, kIn, u.data());
    for (int tile_y = 0; 4 * tile_y < height; ++tile_y) {
      for (int tile_x = 0; 4 * tile_x < width; ++tile_x) {
        set.f32.input(x.data(), {height, width, kIn}, false, tile_y, tile_x, v.data(), kIn);
        multiply_positions(gemm(), 36, kIn, v, u, m);
        set.f32.output(m.data(), out, bias.data(), y.data(), {height, width, out}, tile_y, tile_x,
                       nullptr);
      }
    }
    for (int at = 0; at < height * width * out; ++at) {
      const int channel = at % out;
      double expected = bias[channel];
      for (int tap = 0; tap < 9; ++tap) {
        const int row = at / out / width + tap / 3 - 1;
        const int column = at / out % width + tap % 3 - 1;
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        for (int c = 0; c < kIn; ++c) {
          expected += static_cast<double>(x[(row * width + column) * kIn + c]) *
                      weights[(c * 9 + tap) * out + channel];
        }
      }
      ASSERT_NEAR(y[at], expected, 2e-4) << height << "x" << width << ", value " << at;
    }
  }
}

TEST_P(EveryInstructionSet, ConvolvesFramesByWinograd) {
  const WinogradKernels& set = winograd();
  constexpr int kIn = 32;
  const int out = set.panel;
  for (const int frames : {1, 4, 6}) {
    const Floats x = noise(frames * kIn);
    const Floats weights = noise(kIn * 3 * out, 0.1F);  // [in, 3, panel]
    const Floats bias = noise(out);
    Floats u(6 * kIn * out);
    Floats v(6 * kIn);
    Floats m(6 * out);
    Floats y(frames * out);
    set.temporal.weights(weights.data(), 0, kIn, u.data());
    for (int tile = 0; 4 * tile < frames; ++tile) {
      set.temporal.input(x.data(), frames, kIn, kIn, tile, v.data(), kIn);
      multiply_positions(gemm(), 6, kIn, v, u, m);
      set.temporal.output(m.data(), out, bias.data(), y.data(), frames, out, tile, nullptr);
    }
    for (int at = 0; at < frames * out; ++at) {
      double expected = bias[at % out];
      for (int tap = 0; tap < 3; ++tap) {
        const int frame = at / out + tap - 1;
        if (frame < 0 || frame >= frames) continue;
        for (int c = 0; c < kIn; ++c) {
          expected +=
              static_cast<double>(x[frame * kIn + c]) * weights[(c * 3 + tap) * out + at % out];
        }
      }
      ASSERT_NEAR(y[at], expected, 1e-4) << frames << " frames, value " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, EveryInstructionSet, ::testing::ValuesIn(runnable_sets()),
                         [](const auto& set) { return std::string(set.param.name); });

}  // namespace
}  // namespace normalcrafter::cpu
