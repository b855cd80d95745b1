// The sets of kernels by name, for the choice at run time and for tests of each.
#pragma once

#include "nn/cpu/attention.h"
#include "nn/cpu/gemm.h"
#include "nn/cpu/kernels.h"
#include "nn/cpu/winograd.h"

namespace normalcrafter::cpu {

extern const AttentionKernels attention_baseline;
extern const Kernels kernels_baseline;
extern const GemmKernels gemm_baseline;
extern const WinogradKernels winograd_baseline;
#ifdef NORMALCRAFTER_X86_KERNELS
extern const AttentionKernels attention_avx2;
extern const Kernels kernels_avx2;
extern const GemmKernels gemm_avx2;
extern const WinogradKernels winograd_avx2;
extern const AttentionKernels attention_avx512;
extern const Kernels kernels_avx512;
extern const GemmKernels gemm_avx512;
extern const WinogradKernels winograd_avx512;
extern const AttentionKernels attention_avx512bf16;
extern const GemmKernels gemm_avx512bf16;
#endif

/// Whether this processor runs what the set of that name is compiled for.
bool runs_avx2();
bool runs_avx512();
bool runs_avx512bf16();

}  // namespace normalcrafter::cpu
