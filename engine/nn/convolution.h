// Convolutions on channels-last activations.
//
// Every activation between layers is a contiguous tensor [T, H, W, C]: T frames, C channels
// innermost. It is a channels-last image batch for two-dimensional convolutions, a matrix of T*H*W
// rows for linear layers, and, seen as [1, T, H*W, C], one image whose rows are frames, which makes
// a temporal convolution a two-dimensional one without a copy.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "nn/parameters.h"
#include "nn/weight_source.h"
#include "nn/winograd.h"

namespace normalcrafter {

/// [T, H, W, C] contiguous <-> the same memory as [T, C, H, W].
at::Tensor as_nchw(const at::Tensor& nhwc);
at::Tensor as_nhwc(const at::Tensor& nchw);

/// A two-dimensional convolution with bias. Winograd where it suits, ATen otherwise.
class Conv2d {
 public:
  struct Shape {
    int in = 0;
    int out = 0;
    int kernel = 3;
    int stride = 1;
    int padding = 1;
  };

  Conv2d() = default;
  /// Reads "weight" [out, in, kernel, kernel] and "bias" [out]. `extra_bias`, float32 [out] if
  /// defined, is added to the bias.
  Conv2d(const Weights& weights, const Shape& shape, const at::Tensor& extra_bias = {});

  /// [T, H, W, in] -> [T, H', W', out], plus `residual` of that shape if it is defined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual = {}) const;
  /// The same into y, which may be `residual`.
  void into(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual) const;
  /// For a 3x3 layer: [T, H, W, in] -> [T, 2H, 2W, out] after doubling by nearest neighbours.
  at::Tensor doubled(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) {
    if (winograd_) winograd_->list_parameters(list);
    list.add(weight_);
    list.add(bias_);
  }

 private:
  std::optional<WinogradConv> winograd_;  // in place of weight_ and bias_
  at::Tensor weight_;
  at::Tensor bias_;
  int stride_ = 1;
  int padding_ = 1;
};

/// A temporal convolution: kernel (3,1,1), zero padding at the ends of the sequence.
class TemporalConv {
 public:
  TemporalConv() = default;
  /// Reads "weight" [channels, channels, 3, 1, 1] and "bias" [channels]. `extra_bias` as above;
  /// `scale`, float32 [1] if defined, multiplies the layer's output.
  TemporalConv(const Weights& weights, int channels, const at::Tensor& extra_bias = {},
               const at::Tensor& scale = {});

  /// [T, H, W, channels] -> the same shape, plus `residual` if it is defined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual = {}) const;
  /// The same into y, which may be `residual`.
  void into(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual) const;

  void list_parameters(ParameterList& list) {
    if (winograd_) winograd_->list_parameters(list);
    list.add(weight_);
    list.add(bias_);
  }

 private:
  std::optional<WinogradTemporalConv> winograd_;  // in place of weight_ and bias_
  at::Tensor weight_;                             // [channels, channels, 3, 1]
  at::Tensor bias_;
};

/// The UNet's downsampling: stride 2, padding 1 all round. [T,H,W,C] -> [T,H/2,W/2,C]. The VAE
/// encoder's pads right and bottom only: `asymmetric`.
class Downsample {
 public:
  Downsample() = default;
  /// Reads "conv.weight", "conv.bias".
  Downsample(const Weights& weights, int channels, bool asymmetric);
  at::Tensor operator()(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) { conv_.list_parameters(list); }

 private:
  Conv2d conv_;
  bool asymmetric_ = false;
};

/// Nearest-neighbour doubling and a 3x3 convolution. [T,H,W,C] -> [T,2H,2W,C].
class Upsample {
 public:
  Upsample() = default;
  /// Reads "conv.weight", "conv.bias".
  Upsample(const Weights& weights, int channels);
  at::Tensor operator()(const at::Tensor& x) const;

  void list_parameters(ParameterList& list) { conv_.list_parameters(list); }

 private:
  Conv2d conv_;
};

}  // namespace normalcrafter
