// What the kernels share: element types as float, launches checked.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "nn/cuda/kernels.h"

namespace normalcrafter::cuda {

__device__ inline float to_float(float v) {
  return v;
}
__device__ inline float to_float(__half v) {
  return __half2float(v);
}
__device__ inline float to_float(__nv_bfloat16 v) {
  return __bfloat162float(v);
}

template <typename T>
__device__ inline T from_float(float v);
template <>
__device__ inline float from_float<float>(float v) {
  return v;
}
template <>
__device__ inline __half from_float<__half>(float v) {
  return __float2half_rn(v);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
  return __float2bfloat16_rn(v);
}

/// What one thread reads and writes at once.
template <typename T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

/// Calls f with a null pointer to the element's type.
template <typename F>
void with_element(Element type, F f) {
  switch (type) {
    case Element::F32:
      return f(static_cast<float*>(nullptr));
    case Element::F16:
      return f(static_cast<__half*>(nullptr));
    case Element::BF16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
  }
}

inline void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  // Not an Error yet: an earlier kernel's fault may show here first.
  throw std::runtime_error(std::string("CUDA kernel ") + kernel + ": " + cudaGetErrorString(error));
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace normalcrafter::cuda
