// Compiled several times, like kernels_impl.cc: the inner part of a matrix product. A block of rows
// times two vectors of columns stays in registers over the whole depth.
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

template <int kCount>
inline void multiply_rows(const GemmBlock& block, std::int64_t row) {
  const float* a = block.a + row * block.a_stride;
  float* c = block.c + row * block.c_stride;
  Vec sum[kCount][2];
#pragma GCC unroll 12
  for (int r = 0; r < kCount; ++r) {
    const float* start = block.accumulate ? c + r * block.c_stride : block.bias;
    sum[r][0] = start == nullptr ? Vec{} : load(start);
    sum[r][1] = start == nullptr ? Vec{} : load(start + kLanes);
  }
  for (std::int64_t k = 0; k < block.depth; ++k) {
    const Vec first = load(block.b + k * kPanel);
    const Vec second = load(block.b + k * kPanel + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kCount; ++r) {
      const Vec value = broadcast(a[r * block.a_stride + k]);
      sum[r][0] += value * first;
      sum[r][1] += value * second;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kCount; ++r) {
    store(c + r * block.c_stride, sum[r][0]);
    store(c + r * block.c_stride + kLanes, sum[r][1]);
  }
}

void multiply(const GemmBlock& block) {
  std::int64_t row = 0;
  for (; row + kRows <= block.rows; row += kRows) multiply_rows<kRows>(block, row);
  for (; row + 4 <= block.rows; row += 4) multiply_rows<4>(block, row);
  for (; row < block.rows; ++row) multiply_rows<1>(block, row);
}

}  // namespace

#define NORMALCRAFTER_NAME2(isa) gemm_##isa
#define NORMALCRAFTER_NAME(isa) NORMALCRAFTER_NAME2(isa)

extern const GemmKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA);
constinit const GemmKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA) = {kPanel, multiply};

}  // namespace normalcrafter::cpu
