#include "networks/unet_spatio_temporal.h"

#include <algorithm>
#include <string>

namespace normalcrafter {
namespace {

// The resnets' epsilons differ by block in the published code: 1e-6 where a down block has
// attention and in all up blocks, 1e-5 in the plain down block and the mid block.
constexpr double kAttentionBlockEps = 1e-6;
constexpr double kPlainBlockEps = 1e-5;
constexpr double kUpBlockEps = 1e-6;

constexpr float kAddedTimeIds[] = {7, 127, 0};  // fps, motion bucket, noise augmentation

SpatioTemporalResnet unet_resnet(const Weights& weights, int in, int out, double eps,
                                 const TimeEmbedding& time) {
  return SpatioTemporalResnet(weights, {in, out, eps, eps, BlendRole::Unet}, time);
}

SpatioTemporalTransformer::Shape transformer_shape(const UNetConfig::Level& level) {
  return {level.channels, level.attention_heads, level.transformer_layers,
          level.cross_attention_dim};
}

// TimestepEmbedding: linear_1, SiLU, linear_2, in float32 on the host.
at::Tensor embed(const Weights& weights, const at::Tensor& x, int out) {
  const Weights first = weights / "linear_1";
  const Weights second = weights / "linear_2";
  const at::Tensor h = at::silu(
      at::linear(x, first.get_float("weight", {out, x.size(-1)}), first.get_float("bias", {out})));
  return at::linear(h, second.get_float("weight", {out, out}), second.get_float("bias", {out}));
}

}  // namespace

TimeEmbedding unet_time_embedding(const Weights& weights, const UNetConfig& config,
                                  double timestep) {
  const int channels = config.levels.front().channels;
  const at::Device host = weights.device().is_meta() ? weights.device() : at::Device(at::kCPU);
  const at::Tensor time =
      sinusoidal_embedding(at::full({1}, timestep, at::kFloat), channels).to(host);
  const at::Tensor ids = sinusoidal_embedding(at::tensor(at::ArrayRef<float>(kAddedTimeIds)),
                                              config.addition_time_embed_dim)
                             .reshape({1, -1})
                             .to(host);
  return at::silu(embed(weights / "time_embedding", time, 4 * channels) +
                  embed(weights / "add_embedding", ids, 4 * channels));
}

UNetDownBlock::UNetDownBlock(const Weights& weights, const UNetConfig& config, int level,
                             const TimeEmbedding& time) {
  const auto& here = config.levels[level];
  const int before = config.levels[std::max(level - 1, 0)].channels;
  const double eps = here.down_has_attention ? kAttentionBlockEps : kPlainBlockEps;
  for (int i = 0; i < here.layers; ++i) {
    resnets_.push_back(unet_resnet(weights / "resnets" / i, i == 0 ? before : here.channels,
                                   here.channels, eps, time));
    if (here.down_has_attention)
      attentions_.emplace_back(weights / "attentions" / i, transformer_shape(here));
  }
  if (level + 1 < static_cast<int>(config.levels.size()))
    downsample_.emplace(weights / "downsamplers" / 0, here.channels, false);
}

at::Tensor UNetDownBlock::operator()(at::Tensor x, const at::Tensor& context,
                                     std::vector<at::Tensor>& skips,
                                     const Checkpoint& checkpoint) const {
  for (size_t i = 0; i < resnets_.size(); ++i) {
    x = resnets_[i](std::move(x));
    checkpoint.check();
    if (!attentions_.empty()) x = attentions_[i](std::move(x), context, checkpoint);
    skips.push_back(x);
  }
  if (downsample_) {
    x = (*downsample_)(x);
    skips.push_back(x);
  }
  return x;
}

UNetMidBlock::UNetMidBlock(const Weights& weights, const UNetConfig& config,
                           const TimeEmbedding& time)
    : first_(unet_resnet(weights / "resnets" / 0, config.levels.back().channels,
                         config.levels.back().channels, kPlainBlockEps, time)),
      attention_(weights / "attentions" / 0, transformer_shape(config.levels.back())),
      second_(unet_resnet(weights / "resnets" / 1, config.levels.back().channels,
                          config.levels.back().channels, kPlainBlockEps, time)) {}

at::Tensor UNetMidBlock::operator()(at::Tensor x, const at::Tensor& context,
                                    const Checkpoint& checkpoint) const {
  x = first_(std::move(x));
  checkpoint.check();
  x = attention_(std::move(x), context, checkpoint);
  return second_(std::move(x));
}

UNetUpBlock::UNetUpBlock(const Weights& weights, const UNetConfig& config, int index,
                         const TimeEmbedding& time) {
  const int last = static_cast<int>(config.levels.size()) - 1;
  const int level = last - index;
  const auto& here = config.levels[level];
  const int below = config.levels[std::min(level + 1, last)].channels;
  const int above = config.levels[std::max(level - 1, 0)].channels;
  const int count = here.layers + 1;
  for (int i = 0; i < count; ++i) {
    // What comes from the skip: this level's width, but the last one is the level above's output.
    const int skip = i == count - 1 ? above : here.channels;
    const int in = i == 0 ? below : here.channels;
    resnets_.push_back(
        unet_resnet(weights / "resnets" / i, in + skip, here.channels, kUpBlockEps, time));
    if (here.up_has_attention)
      attentions_.emplace_back(weights / "attentions" / i, transformer_shape(here));
  }
  if (level > 0) upsample_.emplace(weights / "upsamplers" / 0, here.channels);
}

at::Tensor UNetUpBlock::operator()(at::Tensor x, const at::Tensor& context,
                                   std::vector<at::Tensor>& skips,
                                   const Checkpoint& checkpoint) const {
  for (size_t i = 0; i < resnets_.size(); ++i) {
    x = at::cat({x, skips.back()}, -1);
    skips.pop_back();
    x = resnets_[i](std::move(x));
    checkpoint.check();
    if (!attentions_.empty()) x = attentions_[i](std::move(x), context, checkpoint);
  }
  return upsample_ ? (*upsample_)(x) : x;
}

namespace {

template <typename... Layers>
ParameterList parameters_of(Layers&... layers) {
  ParameterList list;
  (layers.list_parameters(list), ...);
  return list;
}

}  // namespace

UNetSpatioTemporal::UNetSpatioTemporal(const Weights& weights, const UNetConfig& config,
                                       double timestep, const BlockBuilt& built)
    : UNetSpatioTemporal(weights, config, unet_time_embedding(weights, config, timestep), built) {}

UNetSpatioTemporal::UNetSpatioTemporal(const Weights& weights, const UNetConfig& config,
                                       const TimeEmbedding& time, const BlockBuilt& built)
    : conv_in_(weights / "conv_in", {config.in_channels, config.levels.front().channels}),
      mid_(weights / "mid_block", config, time),
      norm_out_(weights / "conv_norm_out", config.levels.front().channels, 1e-5),
      conv_out_(weights / "conv_out", {config.levels.front().channels, config.out_channels}),
      dtype_(weights.dtype()) {
  const auto tell = [&](auto&... layers) {
    if (built) built(parameters_of(layers...));
  };
  tell(conv_in_);
  tell(mid_);
  tell(norm_out_, conv_out_);
  for (int i = 0; i < static_cast<int>(config.levels.size()); ++i) {
    down_.emplace_back(weights / "down_blocks" / i, config, i, time);
    tell(down_.back());
    up_.emplace_back(weights / "up_blocks" / i, config, i, time);
    tell(up_.back());
  }
}

std::vector<ParameterBlock> UNetSpatioTemporal::parameter_blocks() {
  std::vector<ParameterBlock> blocks;
  blocks.push_back({"conv_in", parameters_of(conv_in_)});
  for (std::size_t i = 0; i < down_.size(); ++i)
    blocks.push_back({"down_blocks." + std::to_string(i), parameters_of(down_[i])});
  blocks.push_back({"mid_block", parameters_of(mid_)});
  for (std::size_t i = 0; i < up_.size(); ++i)
    blocks.push_back({"up_blocks." + std::to_string(i), parameters_of(up_[i])});
  blocks.push_back({"conv_out", parameters_of(norm_out_, conv_out_)});
  return blocks;
}

at::Tensor UNetSpatioTemporal::operator()(const at::Tensor& sample, const at::Tensor& context,
                                          const Checkpoint& checkpoint, BlockWalk* walk) const {
  const at::Tensor tokens = context.to(dtype_);
  int number = 0;
  const auto in_block = [&](auto&& compute) {
    if (walk != nullptr) walk->enter_block(number);
    at::Tensor result = compute();
    if (walk != nullptr) walk->leave_block(number);
    ++number;
    checkpoint.check();
    return result;
  };
  at::Tensor x = in_block([&] { return conv_in_(as_nhwc(sample.to(dtype_))); });
  std::vector<at::Tensor> skips{x};
  for (const auto& block : down_)
    x = in_block([&] { return block(std::move(x), tokens, skips, checkpoint); });
  x = in_block([&] { return mid_(std::move(x), tokens, checkpoint); });
  for (const auto& block : up_)
    x = in_block([&] { return block(std::move(x), tokens, skips, checkpoint); });
  return in_block([&] { return as_nchw(conv_out_(norm_out_.silu(x))).contiguous(); });
}

}  // namespace normalcrafter
