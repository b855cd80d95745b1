#include "nn/resnet.h"

#include <algorithm>

#include "nn/grouping.h"

namespace normalcrafter {
namespace {

// time_emb_proj(silu(emb)), float32 [out], or undefined.
at::Tensor projected(const Weights& weights, int out, const TimeEmbedding& time) {
  if (!time.defined()) return {};
  const Weights layer = weights / "time_emb_proj";
  return at::linear(time, layer.get_float("weight", {out, time.size(-1)}),
                    layer.get_float("bias", {out}))
      .squeeze(0);
}

// Whether nobody else can see x's memory, so that a result may take its place.
bool sole_owner(const at::Tensor& x) {
  return x.use_count() == 1 && x.storage().use_count() == 1;
}

}  // namespace

ResnetBlock::ResnetBlock(const Weights& weights, int in, int out, double eps,
                         const TimeEmbedding& time)
    : norm1_(weights / "norm1", in, eps),
      conv1_(weights / "conv1", {in, out}, projected(weights, out, time)),
      norm2_(weights / "norm2", out, eps),
      conv2_(weights / "conv2", {out, out}),
      in_(in),
      out_(out) {
  if (in != out) shortcut_.emplace(weights / "conv_shortcut", Conv2d::Shape{in, out, 1, 1, 0});
}

at::Tensor ResnetBlock::operator()(at::Tensor x) const {
  const int64_t frames_in_all = x.size(0);
  const int64_t pixels = x.size(1) * x.size(2);
  const int64_t group = items_at_once(pixels * std::max(in_, out_) * x.element_size());
  at::Tensor y = in_ == out_ && sole_owner(x)
                     ? x
                     : at::empty({frames_in_all, x.size(1), x.size(2), out_}, x.options());
  for (int64_t i = 0; i < frames_in_all; i += group) {
    const int64_t count = std::min(group, frames_in_all - i);
    at::Tensor part = y.narrow(0, i, count);
    frames(part, x.narrow(0, i, count));
  }
  return y;
}

// Some frames at once; y may be x.
void ResnetBlock::frames(at::Tensor& y, const at::Tensor& x) const {
  at::Tensor h = conv1_(norm1_.silu(x));
  norm2_.silu_in_place(h);
  conv2_.into(y, h, shortcut_ ? (*shortcut_)(x) : x);
}

at::Tensor temporal_share(const Weights& time_mixer, BlendRole role) {
  const at::Tensor mix = at::sigmoid(time_mixer.get_float("mix_factor", {1}));
  return role == BlendRole::Unet ? 1 - mix : mix;
}

SpatioTemporalResnet::SpatioTemporalResnet(const Weights& weights, const Shape& shape,
                                           const TimeEmbedding& time)
    : spatial_(weights / "spatial_res_block", shape.in, shape.out, shape.eps, time) {
  const Weights temporal = weights / "temporal_res_block";
  norm1_ = GroupNorm(temporal / "norm1", shape.out, shape.temporal_eps);
  conv1_ = TemporalConv(temporal / "conv1", shape.out, projected(temporal, shape.out, time));
  norm2_ = GroupNorm(temporal / "norm2", shape.out, shape.temporal_eps);
  conv2_ = TemporalConv(temporal / "conv2", shape.out, {},
                        temporal_share(weights / "time_mixer", shape.role));
}

at::Tensor SpatioTemporalResnet::operator()(at::Tensor x) const {
  x = spatial_(std::move(x));
  // A leading dimension of one makes the norms pool over the frames.
  at::Tensor h = norm1_.silu(x.unsqueeze(0)).squeeze(0);
  h = conv1_(h).unsqueeze(0);
  norm2_.silu_in_place(h);
  at::Tensor y = sole_owner(x) ? x : at::empty_like(x);
  conv2_.into(y, h.squeeze(0), x);
  return y;
}

}  // namespace normalcrafter
