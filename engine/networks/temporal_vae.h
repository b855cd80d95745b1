// AutoencoderKLTemporalDecoder: a per-frame encoder and a decoder that looks across the frames of
// its chunk.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "networks/configs.h"
#include "nn/attention.h"
#include "nn/checkpoint.h"
#include "nn/convolution.h"
#include "nn/group_norm.h"
#include "nn/parameters.h"
#include "nn/resnet.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// Attention over the pixels of each frame, with its own norm and a residual connection.
class VaeAttention {
 public:
  /// Reads group_norm, to_q, to_k, to_v, to_out.0; a single head.
  VaeAttention(const Weights& weights, int channels);
  /// [T, H, W, C] -> the same shape.
  at::Tensor operator()(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    norm_.list_parameters(list);
    attention_.list_parameters(list);
  }

  /// Marks the tensors of a layer that is published but never runs.
  static void skip(const Weights& weights, int channels);

 private:
  GroupNorm norm_;
  SelfAttention attention_;
};

/// DownEncoderBlock2D.
class VaeDownBlock {
 public:
  VaeDownBlock(const Weights& weights, int in, int out, int layers, bool downsample);
  at::Tensor operator()(at::Tensor x, const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    for (auto& layer : resnets_) layer.list_parameters(list);
    if (downsample_) downsample_->list_parameters(list);
  }

 private:
  std::vector<ResnetBlock> resnets_;
  std::optional<Downsample> downsample_;
};

/// UNetMidBlock2D: resnet, attention, resnet.
class VaeMidBlock {
 public:
  VaeMidBlock(const Weights& weights, int channels);
  at::Tensor operator()(at::Tensor x, const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    first_.list_parameters(list);
    attention_.list_parameters(list);
    second_.list_parameters(list);
  }

 private:
  ResnetBlock first_;
  VaeAttention attention_;
  ResnetBlock second_;
};

class VaeEncoder {
 public:
  /// Reads encoder and quant_conv.
  VaeEncoder(const Weights& weights, const TemporalVaeConfig& config);
  /// Pictures [n,3,H,W] in [-1,1] -> latents [n,c,H/f,W/f]: the mean half of the moments.
  at::Tensor operator()(const at::Tensor& pictures, const Checkpoint& checkpoint) const;
  /// The encoder alone: pictures as above -> moments before quant_conv [n,2c,H/f,W/f].
  at::Tensor moments(const at::Tensor& pictures, const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    conv_in_.list_parameters(list);
    for (auto& layer : down_) layer.list_parameters(list);
    if (mid_) mid_->list_parameters(list);
    norm_out_.list_parameters(list);
    conv_out_.list_parameters(list);
    quant_conv_.list_parameters(list);
  }

 private:
  Conv2d conv_in_;
  std::vector<VaeDownBlock> down_;
  std::optional<VaeMidBlock> mid_;
  GroupNorm norm_out_;
  Conv2d conv_out_;
  Conv2d quant_conv_;
  int latent_channels_ = 0;
  std::vector<int> channels_;  // of each level
  at::ScalarType dtype_ = at::kFloat;
};

/// MidBlockTemporalDecoder: resnets[0], then attention and resnet in pairs. With a single resnet
/// the published attention never runs.
class VaeDecoderMidBlock {
 public:
  VaeDecoderMidBlock(const Weights& weights, int channels, int layers);
  at::Tensor operator()(at::Tensor x, const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    for (auto& layer : resnets_) layer.list_parameters(list);
    if (attention_) attention_->list_parameters(list);
  }

 private:
  std::vector<SpatioTemporalResnet> resnets_;
  std::optional<VaeAttention> attention_;
};

/// UpBlockTemporalDecoder.
class VaeUpBlock {
 public:
  VaeUpBlock(const Weights& weights, int in, int out, int layers, bool upsample);
  at::Tensor operator()(at::Tensor x, const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    for (auto& layer : resnets_) layer.list_parameters(list);
    if (upsample_) upsample_->list_parameters(list);
  }

 private:
  std::vector<SpatioTemporalResnet> resnets_;
  std::optional<Upsample> upsample_;
};

class VaeDecoder {
 public:
  /// Reads decoder.
  VaeDecoder(const Weights& weights, const TemporalVaeConfig& config);
  /// One chunk's latents [n,c,h,w], divided by the scaling factor -> pictures [n,3,f*h,f*w], about
  /// [-1,1]. The n frames are consecutive: temporal norms and convolutions run over them.
  at::Tensor operator()(const at::Tensor& latents, const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    conv_in_.list_parameters(list);
    if (mid_) mid_->list_parameters(list);
    for (auto& layer : up_) layer.list_parameters(list);
    norm_out_.list_parameters(list);
    conv_out_.list_parameters(list);
    time_conv_out_.list_parameters(list);
  }

 private:
  Conv2d conv_in_;
  std::optional<VaeDecoderMidBlock> mid_;
  std::vector<VaeUpBlock> up_;
  GroupNorm norm_out_;
  Conv2d conv_out_;
  TemporalConv time_conv_out_;
  at::ScalarType dtype_ = at::kFloat;
};

}  // namespace normalcrafter
