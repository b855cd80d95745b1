// What a model is computed on and in.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "normalcrafter/options.h"

namespace normalcrafter {

/// "auto" (the first CUDA device if there is one, else the CPU), "cpu", "cuda", "cuda:N" -> device.
/// Throws Error Settings for another text and DeviceUnavailable for a device that is not here.
at::Device resolve_device(const std::string& name);

/// Auto: float16 on CUDA, bfloat16 on a CPU that has instructions for it, float32 otherwise. Throws
/// Error Settings for float16 on a CPU.
at::ScalarType resolve_dtype(Dtype dtype, const at::Device& device);

/// Model::peak_bytes() of that device.
std::uint64_t peak_bytes(const at::Device& device);

/// Lets others have what LibTorch keeps of freed tensors on the device. Nothing to do on the CPU.
void give_back_cached_memory(const at::Device& device) noexcept;

/// Back to the public name; Float32, BFloat16 or Float16.
Dtype public_dtype(at::ScalarType type);

/// "float32", "bfloat16", "float16".
const char* dtype_name(at::ScalarType type);

}  // namespace normalcrafter
