#include "nn/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/grouping.h"
#include "nn/resnet.h"

namespace normalcrafter {

at::Tensor sinusoidal_embedding(const at::Tensor& positions, int dim) {
  const int half = dim / 2;
  const auto options = at::TensorOptions(positions.device()).dtype(at::kFloat);
  const at::Tensor exponent = at::arange(half, options) * (-std::log(10000.0)) / half;
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1) * exponent.exp().unsqueeze(0);
  at::Tensor embedding = at::cat({angles.cos(), angles.sin()}, -1);
  if (dim % 2 == 1) embedding = at::constant_pad_nd(embedding, {0, 1});
  return embedding;
}

FeedForward::FeedForward(const Weights& weights, int channels)
    : in_(weights / "net" / 0 / "proj", channels, 8 * channels),
      out_(weights / "net" / 2, 4 * channels, channels) {}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
  const int64_t channels = x.size(-1);
  const auto some = [this](const at::Tensor& rows) { return out_(geglu(in_(rows))); };
  return in_groups(x.view({-1, channels}), items_at_once(8 * channels * x.element_size()), some)
      .view(x.sizes());
}

namespace {

// CUDA's limit of a grid's second and third side, which attention kernels use for batch and heads.
constexpr int64_t kMostBlocks = 65535;

}  // namespace

at::Tensor attend_across_frames(const SelfAttention& attention, const at::Tensor& x, int heads,
                                int64_t most) {
  const int64_t positions = x.size(1);
  const int64_t at_once = std::max<int64_t>(1, most / heads);
  if (positions <= at_once) return attention.across_frames(x);
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < positions; i += at_once)
    parts.push_back(
        attention.across_frames(x.narrow(1, i, std::min(at_once, positions - i)).contiguous()));
  return at::cat(parts, 1);
}

SpatioTemporalTransformer::SpatialBlock::SpatialBlock(const Weights& weights, const Shape& shape)
    : norm1(weights / "norm1", shape.channels),
      attention(weights / "attn1", shape.channels, shape.heads),
      cross_attention(weights / "attn2", shape.channels, shape.context_channels),
      norm3(weights / "norm3", shape.channels),
      feed_forward(weights / "ff", shape.channels) {
  weights.skip("norm2.weight", {shape.channels});
  weights.skip("norm2.bias", {shape.channels});
}

at::Tensor SpatioTemporalTransformer::SpatialBlock::operator()(at::Tensor x,
                                                               const at::Tensor& context) const {
  x = attention(norm1(x)).add_(x);
  x.add_(cross_attention(context));
  return feed_forward(norm3(x)).add_(x);
}

SpatioTemporalTransformer::TemporalBlock::TemporalBlock(const Weights& weights, const Shape& shape)
    : norm_in(weights / "norm_in", shape.channels),
      feed_forward_in(weights / "ff_in", shape.channels),
      norm1(weights / "norm1", shape.channels),
      attention(weights / "attn1", shape.channels, shape.heads),
      cross_attention(weights / "attn2", shape.channels, shape.context_channels),
      norm3(weights / "norm3", shape.channels),
      feed_forward(weights / "ff", shape.channels),
      heads(shape.heads) {
  weights.skip("norm2.weight", {shape.channels});
  weights.skip("norm2.bias", {shape.channels});
}

at::Tensor SpatioTemporalTransformer::TemporalBlock::operator()(at::Tensor x,
                                                                const at::Tensor& context) const {
  x = feed_forward_in(norm_in(x)).add_(x);
  const int64_t most = x.is_cpu() ? std::numeric_limits<int64_t>::max() : kMostBlocks;
  x = attend_across_frames(attention, norm1(x), heads, most).add_(x);
  x.add_(cross_attention(context));
  return feed_forward(norm3(x)).add_(x);
}

SpatioTemporalTransformer::SpatioTemporalTransformer(const Weights& weights, const Shape& shape)
    : channels_(shape.channels),
      norm_(weights / "norm", shape.channels, 1e-6),
      proj_in_(weights / "proj_in", shape.channels, shape.channels),
      position_in_(weights / "time_pos_embed" / "linear_1", shape.channels, 4 * shape.channels),
      position_out_(weights / "time_pos_embed" / "linear_2", 4 * shape.channels, shape.channels),
      temporal_share_(temporal_share(weights / "time_mixer", BlendRole::Unet)
                          .to(weights.device(), weights.dtype())),
      proj_out_(weights / "proj_out", shape.channels, shape.channels) {
  for (int i = 0; i < shape.layers; ++i) {
    spatial_.emplace_back(weights / "transformer_blocks" / i, shape);
    temporal_.emplace_back(weights / "temporal_transformer_blocks" / i, shape);
  }
}

at::Tensor SpatioTemporalTransformer::frame_embedding(int64_t frames) const {
  const auto options = at::TensorOptions(temporal_share_.device()).dtype(at::kFloat);
  const at::Tensor sinusoids = sinusoidal_embedding(at::arange(frames, options), channels_)
                                   .to(temporal_share_.scalar_type());
  return position_out_(at::silu(position_in_(sinusoids))).unsqueeze(1);  // [T, 1, C]
}

at::Tensor SpatioTemporalTransformer::operator()(at::Tensor x, const at::Tensor& context,
                                                 const Checkpoint& checkpoint) const {
  const int64_t frames = x.size(0);
  at::Tensor h = proj_in_(norm_(x).view({frames, -1, channels_}));
  const at::Tensor positions = frame_embedding(frames);
  const at::Tensor first_context = context.slice(0, 0, 1);
  for (size_t i = 0; i < spatial_.size(); ++i) {
    h = spatial_[i](std::move(h), context);
    checkpoint.check();
    h.lerp_(temporal_[i](h + positions, first_context), temporal_share_);
    checkpoint.check();
  }
  return proj_out_(h).view(x.sizes()).add_(x);
}

}  // namespace normalcrafter
