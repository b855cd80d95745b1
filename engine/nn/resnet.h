// Residual blocks: spatial, temporal, and the pair that every level of the video networks uses.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "nn/convolution.h"
#include "nn/group_norm.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// The constant time embedding after SiLU, float32 [1, channels] on the host; undefined in networks
/// without one (the VAE). It is the same in every call, so each block folds its projection into its
/// first convolution's bias.
using TimeEmbedding = at::Tensor;

/// ResnetBlock2D: x + conv2(silu(norm2(conv1(silu(norm1(x)))))), each frame by itself.
class ResnetBlock {
 public:
  /// Reads norm1, conv1, time_emb_proj (with a time embedding), norm2, conv2 and, when the channel
  /// counts differ, conv_shortcut.
  ResnetBlock(const Weights& weights, int in, int out, double eps, const TimeEmbedding& time = {});
  /// [T, H, W, in] -> [T, H, W, out].
  at::Tensor operator()(at::Tensor x) const;

  void list_parameters(ParameterList& list) {
    norm1_.list_parameters(list);
    conv1_.list_parameters(list);
    norm2_.list_parameters(list);
    conv2_.list_parameters(list);
    if (shortcut_) shortcut_->list_parameters(list);
  }

 private:
  void frames(at::Tensor& y, const at::Tensor& x) const;

  GroupNorm norm1_;
  Conv2d conv1_;
  GroupNorm norm2_;
  Conv2d conv2_;
  std::optional<Conv2d> shortcut_;
  int in_ = 0;
  int out_ = 0;
};

/// How AlphaBlender weighs the temporal branch: 1 - sigmoid(mix) in the UNet, sigmoid(mix) in the
/// VAE, which switches the roles.
enum class BlendRole { Unet, Vae };

/// The weight of the temporal branch, float32 [1], from "mix_factor".
at::Tensor temporal_share(const Weights& time_mixer, BlendRole role);

/// SpatioTemporalResBlock: a spatial block, then x + share * temporal(x), where the share is folded
/// into the temporal block's last convolution. The temporal block's norms pool over all T frames.
class SpatioTemporalResnet {
 public:
  struct Shape {
    int in = 0;
    int out = 0;
    double eps = 1e-6;
    double temporal_eps = 1e-6;
    BlendRole role = BlendRole::Unet;
  };
  /// Reads spatial_res_block, temporal_res_block, time_mixer.
  SpatioTemporalResnet(const Weights& weights, const Shape& shape, const TimeEmbedding& time = {});
  /// [T, H, W, in] -> [T, H, W, out].
  at::Tensor operator()(at::Tensor x) const;

  void list_parameters(ParameterList& list) {
    spatial_.list_parameters(list);
    norm1_.list_parameters(list);
    conv1_.list_parameters(list);
    norm2_.list_parameters(list);
    conv2_.list_parameters(list);
  }

 private:
  ResnetBlock spatial_;
  GroupNorm norm1_;
  TemporalConv conv1_;
  GroupNorm norm2_;
  TemporalConv conv2_;
};

}  // namespace normalcrafter
