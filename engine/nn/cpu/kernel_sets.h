// The sets of kernels by name, for the choice at run time and for tests of each.
#pragma once

#include "nn/cpu/gemm.h"
#include "nn/cpu/kernels.h"
#include "nn/cpu/winograd.h"

namespace normalcrafter::cpu {

extern const Kernels kernels_baseline;
extern const GemmKernels gemm_baseline;
extern const WinogradKernels winograd_baseline;
#ifdef NORMALCRAFTER_X86_KERNELS
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
extern const GemmKernels gemm_avx2;
extern const WinogradKernels winograd_avx2;
extern const GemmKernels gemm_avx512;
extern const WinogradKernels winograd_avx512;
#endif

/// Whether this processor runs what the set of that name is compiled for.
bool runs_avx2();
bool runs_avx512();

}  // namespace normalcrafter::cpu
