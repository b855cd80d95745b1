#include "nn/attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "nn/cpu/attention.h"
#include "nn/cpu_features.h"

namespace normalcrafter {
namespace {

// Packed keys and values of one head beyond this do not stay in a core's share of the caches; ATen
// then does as well. Bytes.
constexpr int64_t kMostScratch = 16 << 20;
// Fewer pieces of work than this for each thread leave some of them idle at the end.
constexpr int64_t kTasksAThread = 4;
// Keys and values are packed for each piece of work: with fewer queries that would cost too much.
constexpr int64_t kFewestQueries = 64;

// [B, L, heads * d] -> [B, heads, L, d], a view.
at::Tensor split_heads(const at::Tensor& x, int heads) {
  return x.unflatten(2, {heads, x.size(2) / heads}).transpose(1, 2);
}

template <typename T>
constexpr at::ScalarType kScalarType = at::kFloat;
template <>
constexpr at::ScalarType kScalarType<cpu::BFloat16Bits> = at::kBFloat16;

template <typename T>
T* data_of(const at::Tensor& t) {
  return static_cast<T*>(t.data_ptr());
}

// out, q, k, v: [B, heads, L, d] with any strides but the last one.
template <typename T>
void attend_by_heads(const cpu::AttentionKernel<T>& kernel, const at::Tensor& out,
                     const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t heads = q.size(1);
  const int64_t queries = q.size(2);
  const int64_t depth = q.size(3);
  const int64_t tasks = q.size(0) * heads;
  const int64_t splits = std::clamp<int64_t>(kTasksAThread * at::get_num_threads() / tasks, 1,
                                             std::max<int64_t>(1, queries / kFewestQueries));
  const int64_t each = (queries + splits - 1) / splits;
  const int64_t scratch = kernel.scratch(k.size(2), depth);
  const at::Tensor memory = at::empty({at::get_num_threads(), scratch}, at::kFloat);
  const auto start = [](const at::Tensor& t, int64_t item, int64_t head, int64_t row) {
    return data_of<T>(t) + item * t.stride(0) + head * t.stride(1) + row * t.stride(2);
  };
  at::parallel_for(0, tasks * splits, 1, [&](int64_t begin, int64_t end) {
    float* const mine = memory.mutable_data_ptr<float>() + at::get_thread_num() * scratch;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t item = task / splits / heads;
      const int64_t head = task / splits % heads;
      const int64_t first = std::min(queries, task % splits * each);
      kernel.attend({.q = start(q, item, head, first),
                     .k = start(k, item, head, 0),
                     .v = start(v, item, head, 0),
                     .out = start(out, item, head, first),
                     .q_stride = q.stride(2),
                     .k_stride = k.stride(2),
                     .v_stride = v.stride(2),
                     .out_stride = out.stride(2),
                     .queries = std::min(each, queries - first),
                     .keys = k.size(2),
                     .depth = depth,
                     .scale = 1 / std::sqrt(static_cast<float>(depth))},
                    mine);
    }
  });
}

template <typename T>
bool try_by_heads(const cpu::AttentionKernel<T>& kernel, const at::Tensor& out, const at::Tensor& q,
                  const at::Tensor& k, const at::Tensor& v) {
  if (q.scalar_type() != kScalarType<T> || kernel.attend == nullptr) return false;
  if (kernel.scratch(k.size(2), k.size(3)) > kMostScratch / static_cast<int64_t>(sizeof(float)))
    return false;
  if (q.size(3) % 2 != 0 || q.stride(2) % 2 != 0 || k.stride(2) % 2 != 0) return false;
  if (q.stride(3) != 1 || k.stride(3) != 1 || v.stride(3) != 1) return false;
  attend_by_heads(kernel, out, q, k, v);
  return true;
}

// softmax(q k^T / sqrt(d)) v of q, k, v [B, heads, L, d] into out, whose rows are contiguous.
void attend_into(const at::Tensor& out, const at::Tensor& q, const at::Tensor& k,
                 const at::Tensor& v) {
  const auto& kernels = cpu::attention_kernels();
  const bool done =
      q.is_cpu() &&
      (try_by_heads(kernels.f32, out, q, k, v) ||
       (!cpu_has_bfloat16_matrix_units() && try_by_heads(kernels.bf16, out, q, k, v)));
  if (!done) out.copy_(at::scaled_dot_product_attention(q, k, v));
}

}  // namespace

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int heads) {
  at::Tensor out = at::empty(q.sizes(), q.options());
  attend_into(split_heads(out, heads), split_heads(q, heads), split_heads(k, heads),
              split_heads(v, heads));
  return out;
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
  at::Tensor out = at::empty(x.sizes(), x.options());
  attend_into(out.view({frames, positions, heads_, channels / heads_}).permute({1, 2, 0, 3}),
              parts[0], parts[1], parts[2]);
  return out_(out);
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
