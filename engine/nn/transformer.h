// TransformerSpatioTemporalModel: attention within each frame, then across frames at each position.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "nn/attention.h"
#include "nn/checkpoint.h"
#include "nn/convolution.h"
#include "nn/group_norm.h"
#include "nn/linear.h"
#include "nn/parameters.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// Sinusoidal embedding of `positions` [n], float32 -> [n, dim] (cosines first), as diffusers'
/// get_timestep_embedding(flip_sin_to_cos=True, downscale_freq_shift=0).
at::Tensor sinusoidal_embedding(const at::Tensor& positions, int dim);

/// FeedForward with GEGLU: net.0.proj, net.2.
class FeedForward {
 public:
  FeedForward(const Weights& weights, int channels);
  at::Tensor operator()(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    in_.list_parameters(list);
    out_.list_parameters(list);
  }

 private:
  Linear in_;
  Linear out_;
};

/// attention.across_frames(x) with at most `most` positions x heads at once, at least one
/// position's: an attention kernel's grid is limited. x [T, P, C]; the result does not depend on
/// `most`.
at::Tensor attend_across_frames(const SelfAttention& attention, const at::Tensor& x, int heads,
                                int64_t most);

class SpatioTemporalTransformer {
 public:
  struct Shape {
    int channels = 0;
    int heads = 1;
    int layers = 1;
    int context_channels = 0;
  };
  /// Reads norm, proj_in, transformer_blocks, temporal_transformer_blocks, time_pos_embed,
  /// time_mixer, proj_out.
  SpatioTemporalTransformer(const Weights& weights, const Shape& shape);

  /// x [T, H, W, C]; context [T, 1, D], one token a frame. The temporal layers' context is the
  /// first frame's token, and frames are numbered from the window's start.
  at::Tensor operator()(at::Tensor x, const at::Tensor& context,
                        const Checkpoint& checkpoint) const;

  void list_parameters(ParameterList& list) {
    norm_.list_parameters(list);
    proj_in_.list_parameters(list);
    for (auto& layer : spatial_) layer.list_parameters(list);
    for (auto& layer : temporal_) layer.list_parameters(list);
    position_in_.list_parameters(list);
    position_out_.list_parameters(list);
    list.add(temporal_share_);
    proj_out_.list_parameters(list);
  }

 private:
  struct SpatialBlock {
    SpatialBlock(const Weights& weights, const Shape& shape);
    at::Tensor operator()(at::Tensor x, const at::Tensor& context) const;
    void list_parameters(ParameterList& list) {
      norm1.list_parameters(list);
      attention.list_parameters(list);
      cross_attention.list_parameters(list);
      norm3.list_parameters(list);
      feed_forward.list_parameters(list);
    }
    LayerNorm norm1;
    SelfAttention attention;
    SingleTokenCrossAttention cross_attention;
    LayerNorm norm3;
    FeedForward feed_forward;
  };
  struct TemporalBlock {
    TemporalBlock(const Weights& weights, const Shape& shape);
    at::Tensor operator()(at::Tensor x, const at::Tensor& context) const;
    void list_parameters(ParameterList& list) {
      norm_in.list_parameters(list);
      feed_forward_in.list_parameters(list);
      norm1.list_parameters(list);
      attention.list_parameters(list);
      cross_attention.list_parameters(list);
      norm3.list_parameters(list);
      feed_forward.list_parameters(list);
    }
    LayerNorm norm_in;
    FeedForward feed_forward_in;
    LayerNorm norm1;
    SelfAttention attention;
    SingleTokenCrossAttention cross_attention;
    LayerNorm norm3;
    FeedForward feed_forward;
    int heads = 1;
  };

  at::Tensor frame_embedding(int64_t frames) const;

  int channels_ = 0;
  GroupNorm norm_;
  Linear proj_in_;
  std::vector<SpatialBlock> spatial_;
  std::vector<TemporalBlock> temporal_;
  Linear position_in_;
  Linear position_out_;
  at::Tensor temporal_share_;  // compute dtype [1]
  Linear proj_out_;
};

}  // namespace normalcrafter
