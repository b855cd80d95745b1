// Convolutions by Winograd's minimal filtering on the CPU: 3x3 of stride 1 by F(4x4,3x3), in
// bfloat16 also by F(6x6,3x3) and F(8x8,3x3), temporal ones of three taps by F(4,3).
//
// A quarter to a sixth, and half, of the multiplications of the direct convolutions, in float32
// whatever the type of the data: on processors without bfloat16 matrix units that is faster than
// direct bfloat16, and more exact. The weights stay as small as they are and are transformed in
// each call.
#pragma once

#include <ATen/ATen.h>

#include "nn/parameters.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// Whether a 3x3 layer with weights of that type there can and should be computed this way.
bool winograd_suits(at::ScalarType dtype, at::Device device, int64_t out, int64_t in);
/// The same for a temporal layer: in float32 only, since halving the multiplications does not make
/// up for leaving the bfloat16 instructions.
bool winograd_temporal_suits(at::ScalarType dtype, at::Device device, int64_t channels);

/// The side of the output tiles in which a layer of so many weights (in * out) computes a picture
/// of that size: 4 or, in bfloat16 where that saves products, 6 or 8. A tile takes (side + 2)^2
/// products.
int64_t winograd_tile(at::ScalarType dtype, int64_t height, int64_t width, int64_t weights);

class WinogradConv {
 public:
  /// weight [out, in, 3, 3], float32 or bfloat16, on the CPU; bias float32 [out].
  WinogradConv(const at::Tensor& weight, const at::Tensor& bias);
  /// Reads "weight" [out, in, 3, 3].
  WinogradConv(const Weights& weights, int64_t out, int64_t in, const at::Tensor& bias);

  /// x [T, H, W, in] contiguous -> [T, H, W, out], zero-padded by 1, plus `residual`, of the
  /// output's shape, if it is defined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual = {}) const;
  /// The same into y, which may be `residual`: each value of it is read before it is written.
  void into(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual) const;
  /// x [T, H, W, in] -> [T, 2H, 2W, out]: the convolution of x doubled by nearest neighbours, which
  /// is never made.
  at::Tensor doubled(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    list.add(packed_);
    list.add(bias_);
  }

 private:
  void compute(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual, bool doubled) const;

  at::Tensor packed_;  // [out/panel, in, 3, 3, panel], the weights' type
  at::Tensor bias_;
};

class WinogradTemporalConv {
 public:
  /// weight [out, in, 3] and bias [out], float32, on the CPU.
  WinogradTemporalConv(const at::Tensor& weight, const at::Tensor& bias);

  /// x [T, H, W, in] contiguous -> [T, H, W, out], zero-padded by one frame at both ends, plus
  /// `residual` if it is defined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual = {}) const;
  /// The same into y, which may be `residual`.
  void into(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual) const;

  void list_parameters(ParameterList& list) {
    list.add(packed_);
    list.add(bias_);
  }

 private:
  at::Tensor packed_;  // [out/panel, in, 3, panel]
  at::Tensor bias_;
};

}  // namespace normalcrafter
