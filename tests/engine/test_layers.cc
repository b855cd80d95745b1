// The layers' own kernels and rearrangements against plain ATen in float64, over shapes.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "nn/attention.h"
#include "nn/convolution.h"
#include "nn/group_norm.h"
#include "nn/resnet.h"
#include "nn/transformer.h"
#include "nn/winograd.h"
#include "random_model.h"

namespace normalcrafter {
namespace {

using test::RandomWeights;

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

at::Tensor noise(at::IntArrayRef shape, double mean = 0, double deviation = 1) {
  return at::randn(shape) * deviation + mean;
}

// x [n, ..., C] by ATen's contiguous group norm in float64.
at::Tensor reference_norm(const at::Tensor& x, RandomWeights& weights, double eps, bool silu) {
  const int64_t channels = x.size(-1);
  const at::Tensor nc = x.to(at::kDouble).reshape({x.size(0), -1, channels}).transpose(1, 2);
  at::Tensor y = at::group_norm(nc.contiguous(), GroupNorm::kGroups,
                                weights.get("weight", {channels}, at::kDouble),
                                weights.get("bias", {channels}, at::kDouble), eps);
  if (silu) y = at::silu(y);
  return y.transpose(1, 2).reshape(x.sizes());
}

TEST(GroupNorm, EqualsFloat64OverShapes) {
  for (const int64_t channels : {32, 64, 96, 320}) {
    for (const auto& shape : {std::vector<int64_t>{1, 1, 1}, {3, 1, 2}, {2, 5, 7}, {1, 40, 33}}) {
      for (const bool silu : {false, true}) {
        RandomWeights weights;
        const at::Tensor x = noise({shape[0], shape[1], shape[2], channels});
        const GroupNorm norm(Weights(weights), static_cast<int>(channels), 1e-5);
        EXPECT_LT(worst(silu ? norm.silu(x) : norm(x), reference_norm(x, weights, 1e-5, silu)),
                  5e-5)
            << channels << " channels, " << x.sizes();
      }
    }
  }
}

// ATen's own channels-last kernel is off by 4e-2 here.
TEST(GroupNorm, KeepsItsDigitsWhenTheMeanIsLargeAgainstTheDeviation) {
  RandomWeights weights;
  const at::Tensor x = noise({2, 48, 64, 64}, 1.0, 0.01);
  const GroupNorm norm(Weights(weights), 64, 1e-6);
  EXPECT_LT(worst(norm(x), reference_norm(x, weights, 1e-6, false)), 1e-4);
}

TEST(GroupNorm, BFloat16DiffersByItsOwnRoundingOnly) {
  RandomWeights weights;
  const at::Tensor x = noise({2, 9, 11, 96}, 0.5, 2).to(at::kBFloat16);
  const GroupNorm norm(Weights(weights), 96, 1e-5);
  const at::Tensor expected = reference_norm(x, weights, 1e-5, true);
  const at::Tensor y = norm.silu(x);
  ASSERT_EQ(y.scalar_type(), at::kBFloat16);
  const at::Tensor error = (y.to(at::kDouble) - expected).abs() / (expected.abs() + 1e-2);
  EXPECT_LT(error.max().item<double>(), 4.1e-3);  // half a unit in the last of 8 bits, and a little
}

TEST(GroupNorm, PassesNonFiniteValuesOn) {
  RandomWeights weights;
  at::Tensor x = noise({1, 4, 4, 32});
  x[0][2][1][5] = std::numeric_limits<float>::quiet_NaN();
  const GroupNorm norm(Weights(weights), 32, 1e-5);
  EXPECT_FALSE(at::isfinite(norm.silu(x)).all().item<bool>());
  EXPECT_FALSE(at::isfinite(norm.silu(x.to(at::kBFloat16))).all().item<bool>());
}

TEST(GroupNorm, DoesNotDependOnTheNumberOfThreads) {
  RandomWeights weights;
  const at::Tensor x = noise({2, 63, 65, 64});
  const GroupNorm norm(Weights(weights), 64, 1e-5);
  at::set_num_threads(1);
  const at::Tensor one = norm.silu(x);
  at::set_num_threads(2);
  EXPECT_TRUE(at::equal(one, norm.silu(x)));
}

TEST(Geglu, EqualsFloat64) {
  const at::Tensor x = noise({3, 17, 2 * 83}, 0, 3);
  const auto halves = x.to(at::kDouble).chunk(2, -1);
  const at::Tensor expected = halves[0] * at::gelu(halves[1]);
  // 1 + erf(g) cancels for negative gates, so the error is relative to value * gate.
  const at::Tensor scale = (halves[0] * halves[1]).abs() + 1;
  EXPECT_LT(((geglu(x) - expected).abs() / scale).max().item<double>(), 5e-7);
  const at::Tensor rounded = geglu(x.to(at::kBFloat16));
  EXPECT_LT(
      ((rounded.to(at::kDouble) - expected).abs() / (expected.abs() + 0.5)).max().item<double>(),
      2e-2);
}

TEST(Gelu, EqualsFloat64InBothTypesAndAtTheExtremes) {
  at::Tensor x = noise({3, 1000, 37}, 0, 3);
  x[0][0][0] = 1e4;
  x[0][0][1] = -1e4;
  const auto error = [](const at::Tensor& y, const at::Tensor& input, double relative) {
    const at::Tensor exact = at::gelu(input.to(at::kDouble));
    const at::Tensor allowed = exact.abs() * relative + 5e-7 * (1 + input.to(at::kDouble).abs());
    return ((y.to(at::kDouble) - exact).abs() / allowed).max().item<double>();
  };
  at::Tensor y = x.clone();
  gelu_in_place(y);
  EXPECT_LT(error(y, x, 0), 1);
  const at::Tensor half = x.to(at::kBFloat16);
  y = half.clone();
  gelu_in_place(y);
  EXPECT_LT(error(y, half, 1.0 / 256), 1) << "rounded once, at the end";
}

TEST(Geglu, HoldsAtTheGatesExtremes) {
  const at::Tensor gates = at::tensor({-1e4F, -20.0F, -6.0F, -0.0F, 1e-20F, 6.0F, 20.0F, 1e4F});
  const at::Tensor x = at::cat({at::ones_like(gates), gates});
  EXPECT_LT(worst(geglu(x.unsqueeze(0)).squeeze(0), at::gelu(gates.to(at::kDouble))), 1e-3);
  EXPECT_LT(worst(geglu(x.unsqueeze(0)).squeeze(0).slice(0, 1, 7),
                  at::gelu(gates.to(at::kDouble)).slice(0, 1, 7)),
            2e-6);
}

TEST(TemporalConv, EqualsTheConv3dThatIsPublished) {
  for (const auto& shape : {std::vector<int64_t>{1, 1, 1}, {2, 3, 5}, {14, 4, 2}}) {
    RandomWeights weights;
    const at::Tensor x = noise({shape[0], shape[1], shape[2], 32});
    const at::Tensor scale = at::full({1}, 0.3F);
    const TemporalConv conv(Weights(weights), 32, {}, scale);
    const at::Tensor expected =
        0.3F * at::conv3d(x.permute({3, 0, 1, 2}).unsqueeze(0).contiguous(),
                          weights.get("weight", {32, 32, 3, 1, 1}, at::kFloat),
                          weights.get("bias", {32}, at::kFloat), 1, at::IntArrayRef{1, 0, 0})
                   .squeeze(0)
                   .permute({1, 2, 3, 0});
    EXPECT_LT(worst(conv(x), expected), 1e-5) << x.sizes();
  }
}

// F(4x4) gives up about a digit against a direct convolution in float32 (relative root mean square
// error 5e-6 where that has 8e-7, at 1280 channels).
constexpr double kWinogradError = 1e-5;

double relative_rms(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor exact = b.to(at::kDouble);
  return ((a.to(at::kDouble) - exact).square().mean() / exact.square().mean())
      .sqrt()
      .item<double>();
}

// x [T,H,W,in] with weight [out,in,3,3] by ATen in float64.
at::Tensor reference_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::conv2d(x.permute({0, 3, 1, 2}).to(at::kDouble).contiguous(), weight.to(at::kDouble),
                    bias.to(at::kDouble), 1, 1)
      .permute({0, 2, 3, 1});
}

TEST(WinogradConv, EqualsDirectConvolutionOverShapesAndChannels) {
  // Few and many channels take different ways through the blocks; sides are odd, one, and whole
  // tiles.
  const int64_t channels[][2] = {{32, 64}, {96, 32}, {64, 64}, {640, 640}, {1280, 448}};
  for (const auto& [in, out] : channels) {
    for (const auto& shape : {std::vector<int64_t>{1, 1, 1}, {3, 5, 7}, {2, 8, 4}, {1, 2, 33}}) {
      const at::Tensor x = noise({shape[0], shape[1], shape[2], in});
      const at::Tensor weight = noise({out, in, 3, 3}) / std::sqrt(9.0 * static_cast<double>(in));
      const at::Tensor bias = noise({out});
      ASSERT_TRUE(winograd_suits(weight.scalar_type(), at::kCPU, out, in));
      const at::Tensor expected = reference_conv(x, weight, bias);
      const WinogradConv conv(weight, bias);
      EXPECT_LT(relative_rms(conv(x), expected), kWinogradError)
          << in << "->" << out << " " << x.sizes();
      const at::Tensor residual = noise(expected.sizes());
      EXPECT_LT(relative_rms(conv(x, residual), expected + residual), kWinogradError);
    }
  }
}

// More tiles than one block of each way through the tiles takes.
TEST(WinogradConv, EqualsDirectConvolutionOverManyBlocks) {
  const int64_t shapes[][5] = {{64, 64, 2, 60, 61}, {1280, 192, 1, 41, 40}, {1280, 448, 1, 41, 40}};
  for (const auto& [in, out, frames, height, width] : shapes) {
    const at::Tensor x = noise({frames, height, width, in});
    const at::Tensor weight = noise({out, in, 3, 3}) / std::sqrt(9.0 * static_cast<double>(in));
    const at::Tensor bias = noise({out});
    EXPECT_LT(relative_rms(WinogradConv(weight, bias)(x), reference_conv(x, weight, bias)),
              kWinogradError)
        << in << "->" << out;
  }
}

TEST(WinogradConv, PassesNonFiniteValuesOn) {
  const at::Tensor weight = noise({64, 64, 3, 3});
  const at::Tensor bias = noise({64});
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    at::Tensor x = noise({1, 5, 6, 64});
    x[0][3][2][7] = value;
    EXPECT_FALSE(at::isfinite(WinogradConv(weight, bias)(x)).all().item<bool>());
    const WinogradConv half(weight.to(at::kBFloat16), bias);
    EXPECT_FALSE(at::isfinite(half(x.to(at::kBFloat16))).all().item<bool>());
  }
}

TEST(WinogradConv, BFloat16IsRoundedOnceAtTheEnd) {
  const at::Tensor x = noise({2, 9, 11, 64}).to(at::kBFloat16);
  const at::Tensor weight = (noise({64, 64, 3, 3}) / 24).to(at::kBFloat16);
  const at::Tensor bias = noise({64});
  const at::Tensor expected = reference_conv(x, weight, bias);
  const at::Tensor error = (WinogradConv(weight, bias)(x).to(at::kDouble) - expected).abs();
  EXPECT_LT((error / (expected.abs() + 1e-2)).max().item<double>(), 5e-3);
}

// Large pictures in bfloat16 take tiles of 6x6 or 8x8; the edges leave 1 to 8 rows of the last
// ones.
TEST(WinogradConv, BFloat16OfLargePicturesIsRoundedOnceAtTheEnd) {
  const int64_t shapes[][5] = {
      {64, 64, 66, 72, 6},    {64, 64, 67, 65, 6},    {64, 64, 66, 1, 4},  {512, 256, 66, 66, 6},
      {1280, 224, 66, 12, 6}, {64, 64, 64, 128, 8},   {64, 64, 39, 63, 8}, {64, 32, 70, 82, 8},
      {512, 512, 32, 40, 8},  {1280, 224, 64, 32, 8}, {64, 64, 54, 6, 6}};
  for (const auto& [in, out, height, width, tile] : shapes) {
    ASSERT_EQ(winograd_tile(at::kBFloat16, height, width, in * out), tile)
        << height << "x" << width;
    const at::Tensor x = noise({1, height, width, in}).to(at::kBFloat16);
    const at::Tensor weight =
        (noise({out, in, 3, 3}) / std::sqrt(9.0 * static_cast<double>(in))).to(at::kBFloat16);
    const at::Tensor bias = noise({out});
    const at::Tensor residual = noise({1, height, width, out}).to(at::kBFloat16);
    const at::Tensor exact = reference_conv(x, weight, bias) + residual.to(at::kDouble);
    const at::Tensor y = WinogradConv(weight, bias)(x, residual);
    EXPECT_LT(relative_rms(y, exact), 1.01 * relative_rms(exact.to(at::kBFloat16), exact))
        << in << "->" << out << " " << x.sizes();
    // Some values are near zero, where the rounding is finer than the arithmetic.
    const at::Tensor error = (y.to(at::kDouble) - exact).abs();
    EXPECT_LT((error - exact.abs() / 256).max().item<double>(), tile == 8 ? 3e-3 : 3e-4)
        << in << "->" << out << " " << x.sizes();
  }
}

TEST(WinogradConv, BFloat16OfADoubledPictureIsRoundedOnceAtTheEnd) {
  const at::Tensor weight = (noise({64, 64, 3, 3}) / 24).to(at::kBFloat16);
  const at::Tensor bias = noise({64});
  // Tiles of 6x6, and of 8x8.
  for (const auto& [height, width, bound] : {std::tuple{33, 33, 3e-4}, {35, 41, 3e-3}}) {
    const at::Tensor x = noise({2, height, width, 64}).to(at::kBFloat16);
    const at::Tensor twice =
        at::upsample_nearest2d(as_nchw(x.to(at::kDouble)), {2 * height, 2 * width});
    const at::Tensor exact = reference_conv(as_nhwc(twice), weight, bias);
    const at::Tensor y = WinogradConv(weight, bias).doubled(x);
    EXPECT_LT(relative_rms(y, exact), 1.01 * relative_rms(exact.to(at::kBFloat16), exact));
    const at::Tensor error = (y.to(at::kDouble) - exact).abs() - exact.abs() / 256;
    EXPECT_LT(error.max().item<double>(), bound) << height << "x" << width;
  }
}

TEST(WinogradTemporalConv, EqualsDirectConvolutionOverLengths) {
  for (const int64_t frames : {1, 2, 3, 4, 5, 8, 14}) {
    for (const int64_t channels : {32, 64, 1280}) {
      const at::Tensor x = noise({frames, 3, 5, channels});
      const at::Tensor weight =
          noise({channels, channels, 3}) / std::sqrt(3.0 * static_cast<double>(channels));
      const at::Tensor bias = noise({channels});
      const at::Tensor expected =
          at::conv1d(x.to(at::kDouble).permute({1, 2, 3, 0}).reshape({15, channels, frames}),
                     weight.to(at::kDouble), bias.to(at::kDouble), 1, 1)
              .permute({2, 0, 1})
              .reshape(x.sizes());
      const at::Tensor residual = noise(x.sizes());
      EXPECT_LT(relative_rms(WinogradTemporalConv(weight, bias)(x, residual), expected + residual),
                kWinogradError)
          << frames << " frames, " << channels << " channels";
    }
  }
}

TEST(Upsample, IsNearestDoublingThenConvolution) {
  for (const auto& shape : {std::vector<int64_t>{1, 1, 1}, {2, 3, 5}, {1, 8, 6}}) {
    RandomWeights weights;
    const at::Tensor x = noise({shape[0], shape[1], shape[2], 32});
    const at::Tensor doubled =
        at::upsample_nearest2d(x.permute({0, 3, 1, 2}).contiguous(), {2 * shape[1], 2 * shape[2]});
    const at::Tensor expected =
        at::conv2d(doubled, weights.get("conv.weight", {32, 32, 3, 3}, at::kFloat),
                   weights.get("conv.bias", {32}, at::kFloat), 1, 1)
            .permute({0, 2, 3, 1});
    EXPECT_LT(worst(Upsample(Weights(weights), 32)(x), expected), 5e-5) << x.sizes();
  }
}

TEST(Downsample, PadsAllRoundOrRightAndBottomOnly) {
  RandomWeights weights;
  const at::Tensor x = noise({2, 6, 8, 32});
  const at::Tensor nchw = x.permute({0, 3, 1, 2}).contiguous();
  const at::Tensor weight = weights.get("conv.weight", {32, 32, 3, 3}, at::kFloat);
  const at::Tensor bias = weights.get("conv.bias", {32}, at::kFloat);
  const auto nhwc = [](const at::Tensor& t) { return t.permute({0, 2, 3, 1}); };
  EXPECT_LT(
      worst(Downsample(Weights(weights), 32, false)(x), nhwc(at::conv2d(nchw, weight, bias, 2, 1))),
      1e-5);
  EXPECT_LT(worst(Downsample(Weights(weights), 32, true)(x),
                  nhwc(at::conv2d(at::constant_pad_nd(nchw, {0, 1, 0, 1}), weight, bias, 2))),
            1e-5);
}

TEST(Linear, EqualsFloat64OverRowsAndWidths) {
  for (const int in : {1, 32, 320, 3000}) {
    for (const int out : {4, 32, 320}) {
      for (const auto& shape : {std::vector<int64_t>{in}, {1, in}, {7, in}, {3, 131, in}}) {
        RandomWeights weights;
        const at::Tensor x = noise(shape);
        for (const bool bias : {false, true}) {
          const Linear layer(Weights(weights), in, out, bias);
          const at::Tensor expected =
              at::linear(x.to(at::kDouble), weights.get("weight", {out, in}, at::kDouble),
                         bias ? weights.get("bias", {out}, at::kDouble) : at::Tensor());
          ASSERT_EQ(layer(x).sizes(), expected.sizes());
          EXPECT_LT(worst(layer(x), expected), 2e-5) << x.sizes() << " to " << out;
        }
      }
    }
  }
}

// Depths of one and several pairs, odd, and so many that few rows are worked on at a time.
TEST(Linear, BFloat16IsRoundedOnceAtTheEnd) {
  for (const int in : {1, 2, 33, 320, 5120, 20480}) {
    for (const int out : {4, 32, 320}) {
      for (const int64_t rows : {1, 5, 12, 131}) {
        RandomWeights weights(at::kBFloat16);
        const at::Tensor x = (noise({rows, in}) / std::sqrt(in)).to(at::kBFloat16);
        for (const bool bias : {false, true}) {
          const at::Tensor y = Linear(Weights(weights), in, out, bias)(x);
          ASSERT_EQ(y.scalar_type(), at::kBFloat16);
          const at::Tensor exact = at::linear(
              x.to(at::kDouble), weights.get("weight", {out, in}, at::kBFloat16).to(at::kDouble),
              bias ? weights.get("bias", {out}, at::kBFloat16).to(at::kDouble) : at::Tensor());
          const at::Tensor error = (y.to(at::kDouble) - exact).abs() - exact.abs() / 256;
          EXPECT_LT(error.max().item<double>(), 2e-5) << rows << "x" << in << " to " << out;
        }
      }
    }
  }
}

class LinearOf : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, LinearOf, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& of) { return std::string(c10::toString(of.param)); });

TEST_P(LinearOf, TakesAViewAndDoesNotDependOnTheNumberOfThreads) {
  RandomWeights weights(GetParam());
  const Linear layer(Weights(weights), 96, 192);
  // Views that begin at an odd element too.
  const at::Tensor x = noise({4, 50, 193}).to(GetParam()).narrow(2, 33, 96);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = layer(x);
  at::set_num_threads(3);
  const at::Tensor three = layer(x);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, three));
  // ATen, which multiplies types that the engine's kernels do not, may round a copy otherwise.
  if (gemm_suits(GetParam(), at::kCPU, 192, 96)) {
    EXPECT_TRUE(at::equal(one, layer(x.contiguous())));
  }
}

TEST(SelfAttention, BFloat16DiffersByItsOwnRoundingOnly) {
  const at::Tensor x = noise({2, 70, 128});
  const auto half = [](const at::Tensor& t) { return t.to(at::kBFloat16); };
  const at::Tensor exact =
      attend(half(x).to(at::kDouble), half(x).to(at::kDouble), half(x).to(at::kDouble), 2);
  const at::Tensor y = attend(half(x), half(x), half(x), 2);
  ASSERT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LT(worst(y, exact), 0.02);  // values up to 4, of 8 bits
}

TEST(SelfAttention, EqualsItsDefinitionForAnyNumberOfQueriesAndKeys) {
  const auto exact = [](const at::Tensor& t) { return t.to(at::kDouble); };
  for (const auto& [queries, keys, channels, heads] : {std::tuple{1, 257, 160, 2},
                                                       {257, 257, 160, 2},
                                                       {14, 14, 192, 3},
                                                       {1030, 1030, 64, 1},
                                                       {40, 33, 21, 3}}) {  // 7 a head is odd
    const at::Tensor q = noise({2, queries, channels});
    const at::Tensor kv = noise({2, keys, 2 * channels});  // views, as of a joined projection
    const auto parts = kv.chunk(2, -1);
    const at::Tensor y = attend(q, parts[0], parts[1], heads);
    const at::Tensor expected = attend(exact(q), exact(parts[0]), exact(parts[1]), heads);
    EXPECT_LT(worst(y, expected), 1e-5) << queries << " queries, " << keys << " keys";
  }
}

TEST(SelfAttention, DoesNotDependOnTheNumberOfThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = noise({1, 300, 128}).to(dtype);
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const at::Tensor one = attend(x, x, x, 1);
    at::set_num_threads(3);
    const at::Tensor three = attend(x, x, x, 1);
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(one, three)) << dtype;
  }
}

TEST(SelfAttention, AcrossFramesIsAttentionOfTransposedData) {
  RandomWeights weights;
  const SelfAttention attention(Weights(weights), 64, 2);
  const at::Tensor x = noise({5, 12, 64});
  EXPECT_LT(
      worst(attention.across_frames(x), attention(x.transpose(0, 1).contiguous()).transpose(0, 1)),
      1e-5);
}

TEST(SelfAttention, AcrossFramesDoesNotDependOnHowManyPositionsAreComputedAtOnce) {
  RandomWeights weights;
  const SelfAttention attention(Weights(weights), 64, 2);
  const at::Tensor x = noise({5, 12, 64});
  const at::Tensor expected = attention.across_frames(x);
  for (const int64_t most : {1, 2, 7, 10, 23, 24, 100})
    EXPECT_LT(worst(attend_across_frames(attention, x, 2, most), expected), 1e-6) << most;
}

TEST(SingleTokenCrossAttention, EqualsFullAttentionWhateverTheQuery) {
  RandomWeights weights;
  const Weights scope(weights);
  const SingleTokenCrossAttention attention(scope, 64, 24);
  const at::Tensor context = noise({3, 1, 24});
  const at::Tensor query = noise({3, 10, 64});
  const at::Tensor expected = at::linear(
      attend(at::linear(query, scope.get("to_q.weight", {64, 64})),
             at::linear(context, scope.get("to_k.weight", {64, 24})).expand({3, 1, 64}),
             at::linear(context, scope.get("to_v.weight", {64, 24})).expand({3, 1, 64}), 2),
      scope.get("to_out.0.weight", {64, 64}), scope.get("to_out.0.bias", {64}));
  EXPECT_LT(worst(attention(context).expand_as(expected), expected), 1e-5);
}

}  // namespace
}  // namespace normalcrafter
