// Group normalisation of channels-last data, optionally followed by SiLU.
#pragma once

#include <ATen/ATen.h>

#include "nn/parameters.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// 32 groups, as everywhere in the published networks. Statistics in float32 blocks combined in
/// double (Chan et al.), never as E[x^2]-E[x]^2: ATen's own kernel loses three digits on
/// channels-last float32.
class GroupNorm {
 public:
  static constexpr int kGroups = 32;

  GroupNorm() = default;
  /// Reads "weight" and "bias" [channels].
  GroupNorm(const Weights& weights, int channels, double eps);

  /// x [n, ..., channels] contiguous: each of the n items is normalised by itself, over everything
  /// between. Returns the same shape.
  at::Tensor operator()(const at::Tensor& x) const { return apply(x, false); }
  at::Tensor silu(const at::Tensor& x) const { return apply(x, true); }
  /// The same into x's own memory.
  void silu_in_place(at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    list.add(weight_);
    list.add(bias_);
  }

 private:
  at::Tensor apply(const at::Tensor& x, bool silu) const;
  void compute(const at::Tensor& x, at::Tensor& y, bool silu) const;

  at::Tensor weight_;  // float32: they are few, and multiply float32 values
  at::Tensor bias_;
  double eps_ = 1e-5;
};

/// value * gelu(gate) for x [..., 2*n] = (value, gate), exact GELU. Returns [..., n].
at::Tensor geglu(const at::Tensor& x);
/// Exact GELU in x's own memory.
void gelu_in_place(at::Tensor& x);

}  // namespace normalcrafter
