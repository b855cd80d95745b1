// UNetSpatioTemporalConditionModel with one context token a frame, for one window (batch of one).
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "networks/configs.h"
#include "nn/checkpoint.h"
#include "nn/convolution.h"
#include "nn/group_norm.h"
#include "nn/parameters.h"
#include "nn/resnet.h"
#include "nn/transformer.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// The constant part of the UNet's input: silu(time_embedding(timestep) + add_embedding(ids)),
/// float32 [1, 4*C]. The ids are what NormalCrafter passes: fps 7, motion bucket 127, noise 0.
TimeEmbedding unet_time_embedding(const Weights& weights, const UNetConfig& config,
                                  double timestep);

/// DownBlockSpatioTemporal and CrossAttnDownBlockSpatioTemporal.
class UNetDownBlock {
 public:
  UNetDownBlock(const Weights& weights, const UNetConfig& config, int level,
                const TimeEmbedding& time);
  /// Appends what the up blocks will need to `skips`.
  at::Tensor operator()(at::Tensor x, const at::Tensor& context, std::vector<at::Tensor>& skips,
                        const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    for (auto& layer : resnets_) layer.list_parameters(list);
    for (auto& layer : attentions_) layer.list_parameters(list);
    if (downsample_) downsample_->list_parameters(list);
  }

 private:
  std::vector<SpatioTemporalResnet> resnets_;
  std::vector<SpatioTemporalTransformer> attentions_;  // as many as resnets, or none
  std::optional<Downsample> downsample_;
};

/// UNetMidBlockSpatioTemporal.
class UNetMidBlock {
 public:
  UNetMidBlock(const Weights& weights, const UNetConfig& config, const TimeEmbedding& time);
  at::Tensor operator()(at::Tensor x, const at::Tensor& context,
                        const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    first_.list_parameters(list);
    attention_.list_parameters(list);
    second_.list_parameters(list);
  }

 private:
  SpatioTemporalResnet first_;
  SpatioTemporalTransformer attention_;
  SpatioTemporalResnet second_;
};

/// UpBlockSpatioTemporal and CrossAttnUpBlockSpatioTemporal.
class UNetUpBlock {
 public:
  /// `index` counts from the coarsest level, as in the published names.
  UNetUpBlock(const Weights& weights, const UNetConfig& config, int index,
              const TimeEmbedding& time);
  /// Takes one tensor a resnet from the back of `skips`.
  at::Tensor operator()(at::Tensor x, const at::Tensor& context, std::vector<at::Tensor>& skips,
                        const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    for (auto& layer : resnets_) layer.list_parameters(list);
    for (auto& layer : attentions_) layer.list_parameters(list);
    if (upsample_) upsample_->list_parameters(list);
  }

 private:
  std::vector<SpatioTemporalResnet> resnets_;
  std::vector<SpatioTemporalTransformer> attentions_;
  std::optional<Upsample> upsample_;
};

class UNetSpatioTemporal {
 public:
  UNetSpatioTemporal(const Weights& weights, const UNetConfig& config, double timestep,
                     const BlockBuilt& built = {});
  /// sample [T, in, h, w]; context [T, 1, D] -> [T, out, h, w] in the compute dtype. `walk`, if
  /// given, is told around each of parameter_blocks().
  at::Tensor operator()(const at::Tensor& sample, const at::Tensor& context,
                        const Checkpoint& checkpoint, BlockWalk* walk = nullptr) const;

  /// In the order of their use: conv_in, the down blocks, mid_block, the up blocks, conv_out.
  std::vector<ParameterBlock> parameter_blocks();

 private:
  UNetSpatioTemporal(const Weights& weights, const UNetConfig& config, const TimeEmbedding& time,
                     const BlockBuilt& built);

  Conv2d conv_in_;
  std::vector<UNetDownBlock> down_;
  UNetMidBlock mid_;
  std::vector<UNetUpBlock> up_;
  GroupNorm norm_out_;
  Conv2d conv_out_;
  at::ScalarType dtype_ = at::kFloat;
};

}  // namespace normalcrafter
