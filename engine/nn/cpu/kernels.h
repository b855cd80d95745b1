// Element-wise and reducing kernels for channels-last data on the CPU, compiled once per
// instruction set and chosen at run time. Raw pointers only: nothing here may include a header with
// inline functions, since the linker could then take the AVX-512 copy of one for the whole program.
#pragma once

#include <cstdint>

namespace normalcrafter::cpu {

/// A bfloat16's bits.
using BFloat16Bits = std::uint16_t;

template <typename T>
struct NormKernels {
  /// Mean and sum of squared deviations per group over x [pixels, channels], two passes over data
  /// that should fit in the L2 cache. scratch: 2*channels floats. mean, m2: [groups].
  void (*moments)(const T* x, std::int64_t pixels, std::int64_t channels, std::int64_t groups,
                  float* scratch, double* mean, double* m2);
  /// y = (x - mean[c]) * scale[c] + shift[c], then SiLU if asked; x, y [pixels, channels], may be
  /// the same memory.
  void (*normalize)(const T* x, T* y, std::int64_t pixels, std::int64_t channels, const float* mean,
                    const float* scale, const float* shift, bool silu);
  /// y[r, i] = x[r, i] * gelu(x[r, width + i]) with the exact (erf) GELU; x [rows, 2*width],
  /// y [rows, width].
  void (*geglu)(const T* x, T* y, std::int64_t rows, std::int64_t width);
  /// x = gelu(x), exact.
  void (*gelu)(T* x, std::int64_t count);
};

struct Kernels {
  const char* name;  ///< "avx512", "avx2", "baseline"
  NormKernels<float> f32;
  NormKernels<BFloat16Bits> bf16;
};

/// The best set that this processor runs.
const Kernels& kernels();

}  // namespace normalcrafter::cpu
