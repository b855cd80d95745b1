// The inner part of a matrix product for the instruction set that a file is compiled for, shared by
// the kernels made of it. A block of rows times two vectors of columns stays in registers over the
// whole depth. Like vectors.h only for files that are compiled once per set.
#pragma once

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "nn/cpu/gemm.h"
#include "nn/cpu/vectors.h"

namespace normalcrafter::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kRows = 12;  // 24 accumulators, 2 weights and a value fill the 32 registers
#else
constexpr int kRows = 6;  // of 16 registers: 12, 2 and 1
#endif
static_assert(kGemmRows % kRows == 0);

inline Vec everywhere(float value) {
  return broadcast(value);
}
inline Vec add_product(Vec sum, Vec a, Vec b, float) {
  return sum + a * b;
}
#if defined(__AVX512BF16__)
inline Vec everywhere(BFloat16Pair pair) {
  return (Vec)(pair.bits - Bits{});
}
// Of two products a lane, summed in float32.
inline Vec add_product(Vec sum, Vec a, Vec b, BFloat16Pair) {
  return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#endif

inline Vec load_bits(const void* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <int kCount, typename T>
inline void multiply_rows(const GemmBlock<T>& block, std::int64_t row) {
  const T* a = block.a + row * block.a_stride;
  Vec sum[kCount][2];
#pragma GCC unroll 12
  for (int r = 0; r < kCount; ++r) {
    const float* start = block.accumulate ? block.c + (row + r) * block.c_stride : block.bias;
    sum[r][0] = start == nullptr ? Vec{} : load(start);
    sum[r][1] = start == nullptr ? Vec{} : load(start + kLanes);
  }
  // Four rows go by one pointer. The compiler would take one for each row, more than there are
  // registers, and keep some of them in vector registers.
  constexpr int kPointers = (kCount + 3) / 4;
  const T* rows[kPointers];
#pragma GCC unroll 3
  for (int i = 0; i < kPointers; ++i) rows[i] = a + 4 * i * block.a_stride;
  const T* weights = block.b;
  for (std::int64_t k = 0; k < block.depth; ++k, weights += kPanel) {
    const Vec first = load_bits(weights);
    const Vec second = load_bits(weights + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kCount; ++r) {
      const Vec value = everywhere(rows[r / 4][r % 4 * block.a_stride]);
      sum[r][0] = add_product(sum[r][0], value, first, T{});
      sum[r][1] = add_product(sum[r][1], value, second, T{});
    }
#pragma GCC unroll 3
    for (int i = 0; i < kPointers; ++i) {
      ++rows[i];
      asm("" : "+r"(rows[i]));
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kCount; ++r) {
    if (block.rounded == nullptr) {
      float* const to = block.c + (row + r) * block.c_stride;
      store(to, sum[r][0]);
      store(to + kLanes, sum[r][1]);
    } else {
      BFloat16Bits* const to = block.rounded + (row + r) * block.rounded_stride;
      store(to, sum[r][0]);
      store(to + kLanes, sum[r][1]);
    }
  }
}

template <typename T>
void multiply(const GemmBlock<T>& block) {
  std::int64_t row = 0;
  for (; row + kRows <= block.rows; row += kRows) multiply_rows<kRows>(block, row);
  for (; row + 4 <= block.rows; row += 4) multiply_rows<4>(block, row);
  for (; row < block.rows; ++row) multiply_rows<1>(block, row);
}

}  // namespace
}  // namespace normalcrafter::cpu
