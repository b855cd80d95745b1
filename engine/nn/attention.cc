#include "nn/attention.h"

namespace normalcrafter {
namespace {

// [B, L, heads * d] -> [B, heads, L, d], a view.
at::Tensor split_heads(const at::Tensor& x, int heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

}  // namespace

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int heads) {
  const at::Tensor out = at::scaled_dot_product_attention(
      split_heads(q, heads), split_heads(k, heads), split_heads(v, heads));
  return out.transpose(1, 2).reshape(q.sizes());
}

SelfAttention::SelfAttention(const Weights& weights, int channels, int heads, bool bias)
    : qkv_(Linear::joined(weights, {"to_q", "to_k", "to_v"}, channels, channels, bias)),
      out_(weights / "to_out" / 0, channels, channels),
      heads_(heads) {}

at::Tensor SelfAttention::operator()(const at::Tensor& x) const {
  const auto parts = qkv_(x).chunk(3, -1);
  return out_(attend(parts[0], parts[1], parts[2], heads_));
}

at::Tensor SelfAttention::across_frames(const at::Tensor& x) const {
  const int64_t frames = x.size(0);
  const int64_t positions = x.size(1);
  const int64_t channels = x.size(2);
  // [T, P, 3, heads, d] -> three views [P, heads, T, d].
  const auto parts = qkv_(x)
                         .view({frames, positions, 3, heads_, channels / heads_})
                         .permute({2, 1, 3, 0, 4})
                         .unbind(0);
  const at::Tensor out = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
  return out_(out.permute({2, 0, 1, 3}).reshape({frames, positions, channels}));
}

SingleTokenCrossAttention::SingleTokenCrossAttention(const Weights& weights, int channels,
                                                     int context_channels)
    : value_(weights / "to_v", context_channels, channels, false),
      out_(weights / "to_out" / 0, channels, channels) {
  weights.skip("to_q.weight", {channels, channels});
  weights.skip("to_k.weight", {channels, context_channels});
}

at::Tensor SingleTokenCrossAttention::operator()(const at::Tensor& context) const {
  return out_(value_(context));
}

}  // namespace normalcrafter
