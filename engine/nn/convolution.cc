#include "nn/convolution.h"

namespace normalcrafter {

at::Tensor as_nchw(const at::Tensor& nhwc) {
  return nhwc.permute({0, 3, 1, 2});
}

at::Tensor as_nhwc(const at::Tensor& nchw) {
  return nchw.permute({0, 2, 3, 1}).contiguous();
}

namespace {

at::Tensor channels_last(const at::Tensor& weight, const Weights& weights) {
  return weight.to(weights.device()).contiguous(at::MemoryFormat::ChannelsLast);
}

// The bias in the compute dtype, with what is folded into it added before rounding.
at::Tensor folded_bias(const Weights& weights, int channels, const at::Tensor& extra) {
  at::Tensor bias = weights.get_float("bias", {channels});
  if (extra.defined()) bias = bias + extra;
  return bias.to(weights.device(), weights.dtype());
}

}  // namespace

Conv2d::Conv2d(const Weights& weights, const Shape& shape, const at::Tensor& extra_bias)
    : weight_(channels_last(
          weights.get("weight", {shape.out, shape.in, shape.kernel, shape.kernel}), weights)),
      stride_(shape.stride),
      padding_(shape.padding) {
  if (shape.bias) bias_ = folded_bias(weights, shape.out, extra_bias);
}

at::Tensor Conv2d::operator()(const at::Tensor& x) const {
  return as_nhwc(at::conv2d(as_nchw(x), weight_, bias_, stride_, padding_));
}

TemporalConv::TemporalConv(const Weights& weights, int channels, const at::Tensor& extra_bias,
                           const at::Tensor& scale) {
  at::Tensor weight;
  if (scale.defined()) {
    weight = (weights.get_float("weight", {channels, channels, 3, 1, 1}) * scale);
    at::Tensor bias = weights.get_float("bias", {channels});
    if (extra_bias.defined()) bias = bias + extra_bias;
    weight = weight.to(weights.dtype());
    bias_ = (bias * scale).to(weights.device(), weights.dtype());
  } else {
    weight = weights.get("weight", {channels, channels, 3, 1, 1});
    bias_ = folded_bias(weights, channels, extra_bias);
  }
  weight_ = channels_last(weight.squeeze(-1), weights);
}

at::Tensor TemporalConv::operator()(const at::Tensor& x) const {
  const at::Tensor sequence = x.view({1, x.size(0), x.size(1) * x.size(2), x.size(3)});
  return as_nhwc(at::conv2d(as_nchw(sequence), weight_, bias_, 1, at::IntArrayRef{1, 0}))
      .view(x.sizes());
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
  const int64_t frames = x.size(0);
  const int64_t height = x.size(1);
  const int64_t width = x.size(2);
  const at::Tensor doubled = x.view({frames, height, 1, width, 1, x.size(3)})
                                 .expand({frames, height, 2, width, 2, x.size(3)})
                                 .reshape({frames, 2 * height, 2 * width, x.size(3)});
  return conv_(doubled);
}

}  // namespace normalcrafter
