// Layers over the last dimension of any tensor.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "nn/gemm.h"
#include "nn/parameters.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// A linear layer over the last dimension.
class Linear {
 public:
  Linear() = default;
  /// Reads "weight" [out, in] and, if `bias`, "bias" [out].
  Linear(const Weights& weights, int in, int out, bool bias = true);
  /// Several layers of the same input as one, their outputs side by side. Reads "`name`.weight" and
  /// "`name`.bias" for each name.
  static Linear joined(const Weights& weights, const std::vector<std::string>& names, int in,
                       int out, bool bias);
  /// [..., in] -> [..., out].
  at::Tensor operator()(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    if (packed_) packed_->list_parameters(list);
    list.add(weight_);
    list.add(bias_);
  }

 private:
  Linear(const std::vector<Weights>& layers, int in, int out, bool bias);

  std::optional<PackedMatrix> packed_;  // or
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Layer normalisation over the last dimension.
class LayerNorm {
 public:
  LayerNorm() = default;
  /// Reads "weight" and "bias" [channels].
  LayerNorm(const Weights& weights, int channels, double eps = 1e-5);
  at::Tensor operator()(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    list.add(weight_);
    list.add(bias_);
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
  double eps_ = 1e-5;
};

}  // namespace normalcrafter
