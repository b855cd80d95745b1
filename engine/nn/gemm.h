// Products with a layer's matrix on the CPU: in float32, and in bfloat16 where vectors of it can be
// multiplied and no matrix unit is better at it.
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
  /// x [..., in] of the weight's type -> x times the weight's transpose [..., out], plus bias
  /// [out], float32, if it is defined. Sums in float32.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& bias) const;

  void list_parameters(ParameterList& list) { list.add(packed_); }

 private:
  at::Tensor packed_;  // [out/panel, in, panel]; bfloat16: [out/panel, in/2, panel, 2]
};

}  // namespace normalcrafter
