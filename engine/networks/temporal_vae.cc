#include "networks/temporal_vae.h"

#include "nn/grouping.h"

namespace normalcrafter {
namespace {

constexpr double kEps = 1e-6;
constexpr double kTemporalEps = 1e-5;

SpatioTemporalResnet decoder_resnet(const Weights& weights, int in, int out) {
  return SpatioTemporalResnet(weights, {in, out, kEps, kTemporalEps, BlendRole::Vae});
}

}  // namespace

VaeAttention::VaeAttention(const Weights& weights, int channels)
    : norm_(weights / "group_norm", channels, kEps), attention_(weights, channels, 1, true) {}

at::Tensor VaeAttention::operator()(const at::Tensor& x) const {
  const at::Tensor rows = norm_(x).view({x.size(0), -1, x.size(3)});
  return attention_(rows).view(x.sizes()).add_(x);
}

void VaeAttention::skip(const Weights& weights, int channels) {
  for (const char* part : {"group_norm.weight", "group_norm.bias"}) weights.skip(part, {channels});
  for (const char* part : {"to_q", "to_k", "to_v", "to_out.0"}) {
    (weights / part).skip("weight", {channels, channels});
    (weights / part).skip("bias", {channels});
  }
}

VaeDownBlock::VaeDownBlock(const Weights& weights, int in, int out, int layers, bool downsample) {
  for (int i = 0; i < layers; ++i)
    resnets_.emplace_back(weights / "resnets" / i, i == 0 ? in : out, out, kEps);
  if (downsample) downsample_.emplace(weights / "downsamplers" / 0, out, true);
}

at::Tensor VaeDownBlock::operator()(at::Tensor x, const Checkpoint& checkpoint) const {
  for (const auto& resnet : resnets_) {
    x = resnet(std::move(x));
    checkpoint.check();
  }
  return downsample_ ? (*downsample_)(x) : x;
}

VaeMidBlock::VaeMidBlock(const Weights& weights, int channels)
    : first_(weights / "resnets" / 0, channels, channels, kEps),
      attention_(weights / "attentions" / 0, channels),
      second_(weights / "resnets" / 1, channels, channels, kEps) {}

at::Tensor VaeMidBlock::operator()(at::Tensor x, const Checkpoint& checkpoint) const {
  x = first_(std::move(x));
  checkpoint.check();
  x = attention_(x);
  checkpoint.check();
  return second_(std::move(x));
}

VaeEncoder::VaeEncoder(const Weights& weights, const TemporalVaeConfig& config)
    : latent_channels_(config.latent_channels),
      channels_(config.block_out_channels),
      dtype_(weights.dtype()) {
  const Weights encoder = weights / "encoder";
  const auto& channels = config.block_out_channels;
  const int moments = 2 * config.latent_channels;
  conv_in_ = Conv2d(encoder / "conv_in", {config.in_channels, channels.front()});
  for (size_t i = 0; i < channels.size(); ++i) {
    down_.emplace_back(encoder / "down_blocks" / static_cast<int>(i), channels[i == 0 ? 0 : i - 1],
                       channels[i], config.layers_per_block, i + 1 < channels.size());
  }
  mid_.emplace(encoder / "mid_block", channels.back());
  norm_out_ = GroupNorm(encoder / "conv_norm_out", channels.back(), kEps);
  conv_out_ = Conv2d(encoder / "conv_out", {channels.back(), moments});
  quant_conv_ = Conv2d(weights / "quant_conv", {moments, moments, 1, 1, 0});
}

at::Tensor VaeEncoder::moments(const at::Tensor& pictures, const Checkpoint& checkpoint) const {
  at::Tensor x = as_nhwc(pictures.to(dtype_));
  for (size_t i = 0; i < down_.size(); ++i) {
    // The encoder treats each frame by itself: the large upper levels need not hold all of them.
    const int64_t frame = x.size(1) * x.size(2) * channels_[i] * x.element_size();
    x = in_groups(x, items_at_once(frame), [&](const at::Tensor& frames) {
      return down_[i](i == 0 ? conv_in_(frames) : frames, checkpoint);
    });
    checkpoint.check();
  }
  x = (*mid_)(std::move(x), checkpoint);
  return as_nchw(conv_out_(norm_out_.silu(x)));
}

at::Tensor VaeEncoder::operator()(const at::Tensor& pictures, const Checkpoint& checkpoint) const {
  const at::Tensor moments = quant_conv_(as_nhwc(this->moments(pictures, checkpoint)));
  return as_nchw(moments.slice(3, 0, latent_channels_)).contiguous();
}

VaeDecoderMidBlock::VaeDecoderMidBlock(const Weights& weights, int channels, int layers) {
  for (int i = 0; i < layers; ++i)
    resnets_.push_back(decoder_resnet(weights / "resnets" / i, channels, channels));
  // Only one attention is published, so only the pair (attentions[0], resnets[1]) exists and any
  // further resnet never runs: diffusers zips the two lists.
  const Weights attention = weights / "attentions" / 0;
  if (layers > 1) {
    attention_.emplace(attention, channels);
  } else {
    VaeAttention::skip(attention, channels);
  }
}

at::Tensor VaeDecoderMidBlock::operator()(at::Tensor x, const Checkpoint& checkpoint) const {
  x = resnets_.front()(std::move(x));
  checkpoint.check();
  if (!attention_) return x;
  x = (*attention_)(x);
  checkpoint.check();
  return resnets_[1](std::move(x));
}

VaeUpBlock::VaeUpBlock(const Weights& weights, int in, int out, int layers, bool upsample) {
  for (int i = 0; i < layers; ++i)
    resnets_.push_back(decoder_resnet(weights / "resnets" / i, i == 0 ? in : out, out));
  if (upsample) upsample_.emplace(weights / "upsamplers" / 0, out);
}

at::Tensor VaeUpBlock::operator()(at::Tensor x, const Checkpoint& checkpoint) const {
  for (const auto& resnet : resnets_) {
    x = resnet(std::move(x));
    checkpoint.check();
  }
  return upsample_ ? (*upsample_)(x) : x;
}

VaeDecoder::VaeDecoder(const Weights& weights, const TemporalVaeConfig& config)
    : dtype_(weights.dtype()) {
  const Weights decoder = weights / "decoder";
  const std::vector<int> channels(config.block_out_channels.rbegin(),
                                  config.block_out_channels.rend());
  conv_in_ = Conv2d(decoder / "conv_in", {config.latent_channels, channels.front()});
  mid_.emplace(decoder / "mid_block", channels.front(), config.layers_per_block);
  for (size_t i = 0; i < channels.size(); ++i) {
    up_.emplace_back(decoder / "up_blocks" / static_cast<int>(i), channels[i == 0 ? 0 : i - 1],
                     channels[i], config.layers_per_block + 1, i + 1 < channels.size());
  }
  norm_out_ = GroupNorm(decoder / "conv_norm_out", channels.back(), kEps);
  conv_out_ = Conv2d(decoder / "conv_out", {channels.back(), config.out_channels});
  time_conv_out_ = TemporalConv(decoder / "time_conv_out", config.out_channels);
}

at::Tensor VaeDecoder::operator()(const at::Tensor& latents, const Checkpoint& checkpoint) const {
  at::Tensor x = conv_in_(as_nhwc(latents.to(dtype_)));
  x = (*mid_)(std::move(x), checkpoint);
  for (const auto& block : up_) {
    checkpoint.check();
    x = block(std::move(x), checkpoint);
  }
  checkpoint.check();
  const int64_t frame = x[0].numel() * x.element_size();
  x = in_groups(x, items_at_once(frame),
                [this](const at::Tensor& frames) { return conv_out_(norm_out_.silu(frames)); });
  return as_nchw(time_conv_out_(x)).contiguous();
}

}  // namespace normalcrafter
