// CLIPVisionModelWithProjection: a picture to one embedding.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "networks/configs.h"
#include "nn/checkpoint.h"
#include "nn/linear.h"
#include "nn/parameters.h"
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

  void list_parameters(ParameterList& list) {
    norm1_.list_parameters(list);
    qkv_.list_parameters(list);
    out_.list_parameters(list);
    norm2_.list_parameters(list);
    fc1_.list_parameters(list);
    fc2_.list_parameters(list);
  }

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

  void list_parameters(ParameterList& list) {
    list.add(patch_weight_);
    list.add(class_embedding_);
    list.add(position_embedding_);
    pre_norm_.list_parameters(list);
    for (auto& layer : layers_) layer.list_parameters(list);
    post_norm_.list_parameters(list);
    projection_.list_parameters(list);
  }

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
