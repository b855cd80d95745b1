// Compiled several times, like kernels_impl.cc.
#include "nn/cpu/products.h"

namespace normalcrafter::cpu {

#define NORMALCRAFTER_NAME2(isa) gemm_##isa
#define NORMALCRAFTER_NAME(isa) NORMALCRAFTER_NAME2(isa)

extern const GemmKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA);
constinit const GemmKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA) = {kPanel, multiply<float>};

}  // namespace normalcrafter::cpu
