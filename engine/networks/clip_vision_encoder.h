// CLIPVisionModelWithProjection: a picture to one embedding.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "networks/configs.h"
#include "nn/checkpoint.h"
#include "nn/linear.h"
#include "nn/weight_source.h"
#include "normalcrafter/options.h"

namespace normalcrafter {

/// Frames [n,3,H,W] float32 in [0,1] -> the encoder's input [n,3,S,S] float32, normalised.
at::Tensor clip_preprocess(const at::Tensor& frames, const ClipVisionConfig& config,
                           ClipResize resize);

/// One pre-norm transformer layer.
class ClipEncoderLayer {
 public:
  /// Reads layer_norm1, self_attn, layer_norm2, mlp.
  ClipEncoderLayer(const Weights& weights, const ClipVisionConfig& config);
  /// [n, L, hidden] -> the same shape.
  at::Tensor operator()(const at::Tensor& x) const;
  /// The same for the first `count` tokens only -> [n, count, hidden].
  at::Tensor first_tokens(const at::Tensor& x, int64_t count) const;

 private:
  LayerNorm norm1_;
  Linear qkv_;
  Linear out_;
  LayerNorm norm2_;
  Linear fc1_;
  Linear fc2_;
  int heads_ = 1;
  bool quick_gelu_ = false;
};

class ClipVisionEncoder {
 public:
  ClipVisionEncoder(const Weights& weights, const ClipVisionConfig& config);
  /// Normalised pixels [n,3,S,S], any float type -> image embeddings [n, projection].
  at::Tensor operator()(const at::Tensor& pixels, const Checkpoint& checkpoint) const;

 private:
  at::Tensor patch_weight_;        // [hidden, 3, P, P]
  at::Tensor class_embedding_;     // [1, 1, hidden]
  at::Tensor position_embedding_;  // [1, 1 + patches, hidden]
  LayerNorm pre_norm_;
  std::vector<ClipEncoderLayer> layers_;
  LayerNorm post_norm_;
  Linear projection_;
  int patch_size_ = 0;
};

}  // namespace normalcrafter
