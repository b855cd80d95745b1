#include "nn/convolution.h"

namespace normalcrafter {

at::Tensor as_nchw(const at::Tensor& nhwc) {
  return nhwc.permute({0, 3, 1, 2});
}

at::Tensor as_nhwc(const at::Tensor& nchw) {
  return nchw.permute({0, 2, 3, 1}).contiguous();
}

namespace {

// (bias + extra) * scale, in float32, on the device.
at::Tensor folded_bias(const Weights& weights, int out, const at::Tensor& extra_bias,
                       const at::Tensor& scale = {}) {
  at::Tensor bias = weights.get_float("bias", {out});
  if (extra_bias.defined()) bias = bias + extra_bias;
  if (scale.defined()) bias = bias * scale;
  return bias.to(weights.device());
}

// weight * scale, rounded to the compute dtype once, on the device.
at::Tensor folded_weight(const Weights& weights, at::IntArrayRef shape, const at::Tensor& scale) {
  if (!scale.defined()) return weights.get("weight", shape).to(weights.device());
  return (weights.get_float("weight", shape) * scale).to(weights.device(), weights.dtype());
}

at::Tensor plus(at::Tensor y, const at::Tensor& residual) {
  return residual.defined() ? y.add_(residual) : y;
}

}  // namespace

Conv2d::Conv2d(const Weights& weights, const Shape& shape, const at::Tensor& extra_bias)
    : stride_(shape.stride), padding_(shape.padding) {
  const at::Tensor bias = folded_bias(weights, shape.out, extra_bias);
  const bool suits = winograd_suits(weights.dtype(), weights.device(), shape.out, shape.in);
  if (suits && shape.kernel == 3 && stride_ == 1 && padding_ == 1) {
    winograd_.emplace(weights, shape.out, shape.in, bias);
    return;
  }
  weight_ = weights.get("weight", {shape.out, shape.in, shape.kernel, shape.kernel})
                .to(weights.device())
                .contiguous(at::MemoryFormat::ChannelsLast);
  bias_ = bias.to(weights.dtype());
}

at::Tensor Conv2d::operator()(const at::Tensor& x, const at::Tensor& residual) const {
  if (winograd_) return (*winograd_)(x, residual);
  return plus(as_nhwc(at::conv2d(as_nchw(x), weight_, bias_, stride_, padding_)), residual);
}

void Conv2d::into(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual) const {
  if (winograd_) {
    winograd_->into(y, x, residual);
  } else {
    y.copy_((*this)(x, residual));
  }
}

at::Tensor Conv2d::doubled(const at::Tensor& x) const {
  if (winograd_) return winograd_->doubled(x);
  const int64_t frames = x.size(0);
  const int64_t height = x.size(1);
  const int64_t width = x.size(2);
  return (*this)(x.view({frames, height, 1, width, 1, x.size(3)})
                     .expand({frames, height, 2, width, 2, x.size(3)})
                     .reshape({frames, 2 * height, 2 * width, x.size(3)}));
}

TemporalConv::TemporalConv(const Weights& weights, int channels, const at::Tensor& extra_bias,
                           const at::Tensor& scale) {
  const at::Tensor weight =
      folded_weight(weights, {channels, channels, 3, 1, 1}, scale).view({channels, channels, 3});
  const at::Tensor bias = folded_bias(weights, channels, extra_bias, scale);
  if (winograd_temporal_suits(weights.dtype(), weights.device(), channels)) {
    winograd_.emplace(weight, bias);
  } else {
    weight_ = weight.unsqueeze(-1).contiguous(at::MemoryFormat::ChannelsLast);
    bias_ = bias.to(weights.dtype());
  }
}

at::Tensor TemporalConv::operator()(const at::Tensor& x, const at::Tensor& residual) const {
  if (winograd_) return (*winograd_)(x, residual);
  const at::Tensor sequence = x.view({1, x.size(0), x.size(1) * x.size(2), x.size(3)});
  return plus(as_nhwc(at::conv2d(as_nchw(sequence), weight_, bias_, 1, at::IntArrayRef{1, 0}))
                  .view(x.sizes()),
              residual);
}

void TemporalConv::into(at::Tensor& y, const at::Tensor& x, const at::Tensor& residual) const {
  if (winograd_) {
    winograd_->into(y, x, residual);
  } else {
    y.copy_((*this)(x, residual));
  }
}

Downsample::Downsample(const Weights& weights, int channels, bool asymmetric)
    : conv_(weights / "conv", {channels, channels, 3, 2, asymmetric ? 0 : 1}),
      asymmetric_(asymmetric) {}

at::Tensor Downsample::operator()(const at::Tensor& x) const {
  // Pads [.., W, C] of a channels-last tensor: (C before, C after, W before, W after, H ...).
  return conv_(asymmetric_ ? at::constant_pad_nd(x, {0, 0, 0, 1, 0, 1}) : x);
}

Upsample::Upsample(const Weights& weights, int channels)
    : conv_(weights / "conv", {channels, channels}) {}

at::Tensor Upsample::operator()(const at::Tensor& x) const {
  return conv_.doubled(x);
}

}  // namespace normalcrafter
