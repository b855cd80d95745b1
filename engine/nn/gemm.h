// Products with a layer's matrix in float32 on the CPU.
//
// The matrix is packed once, in panels of output channels, so that nothing is packed again in each
// call, as a general BLAS has to. The result does not depend on the number of threads.
#pragma once

#include <ATen/ATen.h>

#include "nn/parameters.h"

namespace normalcrafter {

/// Whether a layer with such a weight [out, in] can and should be computed this way here.
bool gemm_suits(const at::Tensor& weight);

class PackedMatrix {
 public:
  /// weight [out, in] for which gemm_suits() holds.
  explicit PackedMatrix(const at::Tensor& weight);
  /// x [..., in] float32 -> x times the weight's transpose [..., out], plus bias [out] if defined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& bias) const;

  void list_parameters(ParameterList& list) { list.add(packed_); }

 private:
  at::Tensor packed_;  // [out/panel, in, panel]
};

}  // namespace normalcrafter
