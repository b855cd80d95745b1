// Products with a layer's matrix on the CPU: in float32, and in bfloat16 where vectors of it can be
// multiplied and no matrix unit is better at it.
//
// The matrix is packed once, in panels of output channels, so that nothing is packed again in each
// call, as a general BLAS has to. The result does not depend on the number of threads.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "nn/parameters.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// Whether a layer with weights [out, in] of that type there can and should be computed this way.
bool gemm_suits(at::ScalarType dtype, at::Device device, int64_t out, int64_t in);

class PackedMatrix {
 public:
  /// Reads "weight" [out, in] of each, for which gemm_suits() holds; their outputs lie side by
  /// side.
  PackedMatrix(const std::vector<Weights>& layers, int64_t out, int64_t in);
  /// x [..., in] of the weight's type -> x times the weight's transpose [..., out], plus bias
  /// [out], float32, if it is defined. Sums in float32.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& bias) const;

  void list_parameters(ParameterList& list) { list.add(packed_); }

 private:
  at::Tensor packed_;  // [out/panel, in, panel]; bfloat16: [out/panel, in/2, panel, 2]
};

}  // namespace normalcrafter
