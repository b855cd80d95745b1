// Compiled several times, like kernels_impl.cc.
#include "nn/cpu/products.h"

namespace normalcrafter::cpu {
namespace {

#if defined(__AVX512BF16__)
constexpr auto kMultiplyBFloat16 = multiply<BFloat16Pair>;
#else
constexpr void (*kMultiplyBFloat16)(const GemmBlock<BFloat16Pair>& block) = nullptr;
#endif

}  // namespace

#define NORMALCRAFTER_NAME2(isa) gemm_##isa
#define NORMALCRAFTER_NAME(isa) NORMALCRAFTER_NAME2(isa)

extern const GemmKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA);
constinit const GemmKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA) = {kPanel, multiply<float>,
                                                                     kMultiplyBFloat16};

}  // namespace normalcrafter::cpu
