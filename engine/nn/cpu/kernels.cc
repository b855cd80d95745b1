#include "nn/cpu/kernel_sets.h"

namespace normalcrafter::cpu {

#ifdef NORMALCRAFTER_X86_KERNELS
bool runs_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool runs_avx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool runs_avx512bf16() {
  return runs_avx512() && __builtin_cpu_supports("avx512bf16");
}
#else
bool runs_avx2() {
  return false;
}
bool runs_avx512() {
  return false;
}
bool runs_avx512bf16() {
  return false;
}
#endif

namespace {

struct Sets {
  const AttentionKernels* attention = &attention_baseline;
  const Kernels* kernels = &kernels_baseline;
  const GemmKernels* gemm = &gemm_baseline;
  const WinogradKernels* winograd = &winograd_baseline;
};

Sets best_sets() {
#ifdef NORMALCRAFTER_X86_KERNELS
  if (runs_avx512bf16())
    return {&attention_avx512bf16, &kernels_avx512, &gemm_avx512bf16, &winograd_avx512};
  if (runs_avx512()) return {&attention_avx512, &kernels_avx512, &gemm_avx512, &winograd_avx512};
  if (runs_avx2()) return {&attention_avx2, &kernels_avx2, &gemm_avx2, &winograd_avx2};
#endif
  return {};
}

const Sets& sets() {
  static const Sets best = best_sets();
  return best;
}

}  // namespace

const AttentionKernels& attention_kernels() {
  return *sets().attention;
}
const Kernels& kernels() {
  return *sets().kernels;
}
const GemmKernels& gemm_kernels() {
  return *sets().gemm;
}
const WinogradKernels& winograd_kernels() {
  return *sets().winograd;
}

}  // namespace normalcrafter::cpu
