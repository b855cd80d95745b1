// Matrix products on the CPU, of a matrix of rows with one that is packed in panels of columns.
// Chosen at run time like kernels.h, and likewise raw pointers only.
#pragma once

#include <cstdint>

#include "nn/cpu/kernels.h"

namespace normalcrafter::cpu {

/// Two bfloat16 that follow each other, the first one in the lower bits.
struct [[gnu::may_alias]] BFloat16Pair {
  std::uint32_t bits;
};

/// c [rows, panel] = a [rows, depth] x b [depth, panel], or added to what c holds. T is float, or
/// BFloat16Pair: then `depth` counts pairs.
template <typename T>
struct GemmBlock {
  const T* a = nullptr;
  std::int64_t a_stride = 0;  ///< from row to row
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  const T* b = nullptr;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  const float* bias = nullptr;      ///< [panel], what every row of c begins with; null: zero
  bool accumulate = false;          ///< adds to c; `bias` is then not looked at
  BFloat16Bits* rounded = nullptr;  ///< where not null, takes the result, in place of c
  std::int64_t rounded_stride = 0;
};

struct GemmKernels {
  int panel;  ///< columns of b and c
  void (*multiply)(const GemmBlock<float>& block);
  /// Sums in float32; null where no instruction multiplies bfloat16 by vectors.
  void (*multiply_bf16)(const GemmBlock<BFloat16Pair>& block);
};

/// Rows that make full use of every set's kernel: a multiple of what each takes at once.
inline constexpr std::int64_t kGemmRows = 12;

/// The best set that this processor runs.
const GemmKernels& gemm_kernels();

}  // namespace normalcrafter::cpu
