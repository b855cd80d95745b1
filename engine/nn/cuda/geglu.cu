#include <algorithm>

#include "nn/cuda/device_types.cuh"

namespace normalcrafter::cuda {
namespace {

__device__ float gelu(float v) {
  constexpr float kRootHalf = 0.70710678118654752F;
  return 0.5F * v * (1 + erff(v * kRootHalf));
}

template <typename V, typename T>
__global__ void geglu_kernel(const T* x, T* y, std::int64_t rows, std::int64_t width) {
  constexpr int kSize = sizeof(V) / sizeof(T);
  const std::int64_t columns = width / kSize;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
       i < rows * columns; i += step) {
    const std::int64_t row = i / columns;
    const std::int64_t column = i % columns * kSize;
    const V values = *reinterpret_cast<const V*>(x + row * 2 * width + column);
    const V gates = *reinterpret_cast<const V*>(x + row * 2 * width + width + column);
    V result;
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float value = to_float(reinterpret_cast<const T*>(&values)[k]);
      const float gate = to_float(reinterpret_cast<const T*>(&gates)[k]);
      reinterpret_cast<T*>(&result)[k] = from_float<T>(value * gelu(gate));
    }
    *reinterpret_cast<V*>(y + row * width + column) = result;
  }
}

}  // namespace

void geglu(const void* x, void* y, Element type, std::int64_t rows, std::int64_t width,
           Stream stream) {
  with_element(type, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    constexpr int kBlock = 256;
    constexpr std::int64_t kMostBlocks = 65535;
    const bool vectors = width % Vector<T>::kSize == 0;
    const std::int64_t threads = rows * (vectors ? width / Vector<T>::kSize : width);
    const auto grid =
        static_cast<unsigned>(std::clamp<std::int64_t>(divide_up(threads, kBlock), 1, kMostBlocks));
    const auto kernel = vectors ? geglu_kernel<Vector<T>, T> : geglu_kernel<T, T>;
    kernel<<<grid, kBlock, 0, stream>>>(static_cast<const T*>(x), static_cast<T*>(y), rows, width);
    check_launch("geglu");
  });
}

}  // namespace normalcrafter::cuda
