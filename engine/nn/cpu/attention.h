// Softmax attention on the CPU, one head at a time. Chosen at run time like kernels.h, and likewise
// raw pointers only.
#pragma once

#include <cstdint>

#include "nn/cpu/kernels.h"

namespace normalcrafter::cpu {

/// out [queries, depth] = softmax(scale * q k^T) v of one head. Strides are from row to row, in
/// elements. With bfloat16 `depth` and all strides but out's are even.
template <typename T>
struct AttentionHead {
  const T* q = nullptr;  ///< [queries, depth]
  const T* k = nullptr;  ///< [keys, depth]
  const T* v = nullptr;  ///< [keys, depth]
  T* out = nullptr;
  std::int64_t q_stride = 0;
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;
  std::int64_t out_stride = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t depth = 0;
  float scale = 1;
};

template <typename T>
struct AttentionKernel {
  /// Floats of scratch memory that `attend` needs.
  std::int64_t (*scratch)(std::int64_t keys, std::int64_t depth) = nullptr;
  /// Products and sums in float32; the weights behind the softmax are rounded to T, as ATen's are.
  void (*attend)(const AttentionHead<T>& head, float* scratch) = nullptr;
};

struct AttentionKernels {
  AttentionKernel<float> f32;
  AttentionKernel<BFloat16Bits> bf16;  ///< null where no instruction multiplies bfloat16 by vectors
};

/// The best set that this processor runs.
const AttentionKernels& attention_kernels();

}  // namespace normalcrafter::cpu
