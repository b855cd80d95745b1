#include "nn/cpu/kernels.h"
#include "nn/cpu/winograd.h"

namespace normalcrafter::cpu {

extern const Kernels kernels_baseline;
extern const WinogradKernels winograd_baseline;
#ifdef NORMALCRAFTER_X86_KERNELS
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
extern const WinogradKernels winograd_avx2;
extern const WinogradKernels winograd_avx512;
#endif

namespace {

struct Sets {
  const Kernels* kernels = &kernels_baseline;
  const WinogradKernels* winograd = &winograd_baseline;
};

Sets best_sets() {
#ifdef NORMALCRAFTER_X86_KERNELS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return {&kernels_avx512, &winograd_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {&kernels_avx2, &winograd_avx2};
#endif
  return {};
}

const Sets& sets() {
  static const Sets best = best_sets();
  return best;
}

}  // namespace

const Kernels& kernels() {
  return *sets().kernels;
}
const WinogradKernels& winograd_kernels() {
  return *sets().winograd;
}

}  // namespace normalcrafter::cpu
