#include "nn/cuda/runtime.h"

#include <cuda_runtime.h>

namespace normalcrafter::cuda {
namespace {

// Also forgets the error, or the next kernel's launch would report it as its own.
bool succeeded(cudaError_t error) {
  if (error == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

}  // namespace

bool page_lock(void* memory, std::size_t bytes) noexcept {
  return succeeded(cudaHostRegister(memory, bytes, cudaHostRegisterPortable));
}

void page_unlock(void* memory) noexcept {
  succeeded(cudaHostUnregister(memory));
}

std::string device_name(int index) {
  cudaDeviceProp properties{};
  return succeeded(cudaGetDeviceProperties(&properties, index)) ? properties.name : "";
}

}  // namespace normalcrafter::cuda
