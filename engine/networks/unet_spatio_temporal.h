// UNetSpatioTemporalConditionModel with one context token a frame, for one window (batch of one).
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "networks/configs.h"
#include "nn/checkpoint.h"
#include "nn/convolution.h"
#include "nn/group_norm.h"
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

 private:
  std::vector<SpatioTemporalResnet> resnets_;
  std::vector<SpatioTemporalTransformer> attentions_;
  std::optional<Upsample> upsample_;
};

class UNetSpatioTemporal {
 public:
  UNetSpatioTemporal(const Weights& weights, const UNetConfig& config, double timestep);
  /// sample [T, in, h, w]; context [T, 1, D] -> [T, out, h, w] in the compute dtype.
  at::Tensor operator()(const at::Tensor& sample, const at::Tensor& context,
                        const Checkpoint& checkpoint) const;

 private:
  UNetSpatioTemporal(const Weights& weights, const UNetConfig& config, const TimeEmbedding& time);

  Conv2d conv_in_;
  std::vector<UNetDownBlock> down_;
  UNetMidBlock mid_;
  std::vector<UNetUpBlock> up_;
  GroupNorm norm_out_;
  Conv2d conv_out_;
  at::ScalarType dtype_ = at::kFloat;
};

}  // namespace normalcrafter
