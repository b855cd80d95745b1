// Multi-head attention as the published networks use it.
#pragma once

#include <ATen/ATen.h>

#include "nn/linear.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// Attention of q, k, v [B, L, heads * d], scaled by 1/sqrt(d) -> [B, L, heads * d].
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int heads);

/// Self-attention with projections to_q, to_k, to_v and to_out.0.
class SelfAttention {
 public:
  /// `bias`: of to_q, to_k, to_v; to_out.0 always has one.
  SelfAttention(const Weights& weights, int channels, int heads, bool bias = false);
  /// [B, L, channels] -> the same shape. Rows of L attend to each other.
  at::Tensor operator()(const at::Tensor& x) const;
  /// [T, P, channels] -> the same shape. The T entries of one position attend to each other.
  at::Tensor across_frames(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    qkv_.list_parameters(list);
    out_.list_parameters(list);
  }

 private:
  Linear qkv_;
  Linear out_;
  int heads_ = 1;
};

/// Cross-attention to a context of a single token. Whatever the query, the softmax over one key is
/// 1, so the result is to_out(to_v(context)): the norm before it, to_q and to_k cannot matter and
/// are not read.
class SingleTokenCrossAttention {
 public:
  SingleTokenCrossAttention(const Weights& weights, int channels, int context_channels);
  /// context [n, 1, D] -> [n, 1, channels], to be added to every position.
  at::Tensor operator()(const at::Tensor& context) const;

  void list_parameters(ParameterList& list) {
    value_.list_parameters(list);
    out_.list_parameters(list);
  }

 private:
  Linear value_;
  Linear out_;
};

}  // namespace normalcrafter
