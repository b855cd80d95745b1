#include "nn/cpu/kernels.h"

namespace normalcrafter::cpu {

extern const Kernels kernels_baseline;
#ifdef NORMALCRAFTER_X86_KERNELS
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

const Kernels& kernels() {
#ifdef NORMALCRAFTER_X86_KERNELS
  static const Kernels& best = [&]() -> const Kernels& {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kernels_avx2;
    return kernels_baseline;
  }();
  return best;
#else
  return kernels_baseline;
#endif
}

}  // namespace normalcrafter::cpu
