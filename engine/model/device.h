// What a model is computed on and in.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "normalcrafter/options.h"

namespace normalcrafter {

/// "auto" (the first CUDA device if there is one that this build's kernels run on, else the CPU),
/// "cpu", "cuda", "cuda:N" -> device. `log` is told why "auto" took the CPU where LibTorch has
/// CUDA. Throws Error Settings for another text and DeviceUnavailable for a device that is not
/// here.
at::Device resolve_device(const std::string& name, const LogFunction& log = {});

/// Why `name` cannot be had when no CUDA device is usable, and what to do. `built`: LibTorch has
/// CUDA; `reason`: what LibTorch says when it is asked for the device nevertheless, or "".
std::string no_cuda_message(const std::string& name, bool built, const std::string& reason);

/// For people: "CPU", or the GPU's name where it can be told.
std::string device_name(const at::Device& device);

/// Auto: float16 on CUDA, bfloat16 on a CPU that has instructions for it, float32 otherwise. Throws
/// Error Settings for float16 on a CPU.
at::ScalarType resolve_dtype(Dtype dtype, const at::Device& device);

/// What the VAE computes in where the other networks use `dtype`. Auto: `dtype`, but float32 in
/// place of float16 if `force_upcast`: the published VAE overflows in it, and its configuration
/// says so. Throws as resolve_dtype() does.
at::ScalarType resolve_vae_dtype(Dtype asked, at::ScalarType dtype, bool force_upcast,
                                 const at::Device& device);

/// How LibTorch computes on CUDA from now on; settings of the whole process. Float32 in full unless
/// `allow_tf32`; with `deterministic` equal inputs give equal bits, else cuDNN tries its kernels
/// and takes the fastest.
void use_numerics(bool allow_tf32, bool deterministic);

/// Model::peak_bytes() of that device.
std::uint64_t peak_bytes(const at::Device& device);

/// Lets others have what LibTorch keeps of freed tensors on the device. Nothing to do on the CPU.
void give_back_cached_memory(const at::Device& device) noexcept;

/// Back to the public name; Float32, BFloat16 or Float16.
Dtype public_dtype(at::ScalarType type);

/// "float32", "bfloat16", "float16".
const char* dtype_name(at::ScalarType type);

}  // namespace normalcrafter
