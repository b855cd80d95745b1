#include "model/device.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <charconv>
#include <exception>
#include <fstream>

#include "nn/cpu_features.h"
#include "nn/cuda/runtime.h"
#include "nn/cuda/tensors.h"
#include "normalcrafter/error.h"
#include "stream/faults.h"

namespace normalcrafter {
namespace {

int cuda_devices() {
  return at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
}

int parse_index(const std::string& name) {
  constexpr std::size_t kPrefix = 5;  // "cuda:"
  int index = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix, end, index);
  if (error != std::errc() || stop != end || index < 0)
    throw Error(ErrorCode::Settings, "device \"" + name + "\" is not of the form cuda:N");
  return index;
}

/// VmHWM of Linux's /proc, in bytes.
std::uint64_t peak_resident_set() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

// What LibTorch says when CUDA is started nevertheless.
std::string reason_without_device() {
  try {
    at::detail::getCUDAHooks().init();
  } catch (const std::exception& error) {
    return message_of(error);
  }
  return "";
}

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

at::Device cuda_device(const std::string& name, int index) {
  const int count = cuda_devices();
  if (count == 0) {
    const bool built = c10::impl::hasDeviceGuardImpl(at::kCUDA);
    throw Error(ErrorCode::DeviceUnavailable,
                no_cuda_message(name, built, built ? reason_without_device() : ""));
  }
  if (index >= count) {
    throw Error(ErrorCode::DeviceUnavailable, "device \"" + name + "\" was asked for, but only " +
                                                  std::to_string(count) +
                                                  " CUDA device(s) are present");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

// LibTorch's kernels and the engine's own are each made for a list of architectures. What else
// fails here, such as a device that is full, fails again where it is used, and is told there.
std::string why_kernels_do_not_run(const at::Device& device) {
  try {
    const at::Tensor x = at::ones({1, 8}, at::TensorOptions(device).dtype(at::kFloat));
    if constexpr (cuda::kCompiled) cuda::geglu(x);
    x.sum().item<float>();
  } catch (const std::exception& error) {
    const std::string why = message_of(error);
    if (mentions(why, "no kernel image")) return why;
  }
  return "";
}

at::Device automatic_device(const LogFunction& log) {
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA)) return at::kCPU;
  const at::Device first(at::kCUDA, 0);
  const bool any = cuda_devices() > 0;
  const std::string why = any ? why_kernels_do_not_run(first) : reason_without_device();
  if (any && why.empty()) return first;
  // Without a driver nobody expects a GPU to be used.
  const bool expected = !any && mentions(why, "no NVIDIA driver");
  if (log)
    log(expected ? LogLevel::Info : LogLevel::Warning,
        "device=auto takes the CPU: " + why.substr(0, why.find('\n')));
  return at::kCPU;
}

}  // namespace

at::Device resolve_device(const std::string& name, const LogFunction& log) {
  if (name == "cpu") return at::kCPU;
  if (name == "auto") return automatic_device(log);
  if (name == "cuda") return cuda_device(name, 0);
  if (name.starts_with("cuda:")) return cuda_device(name, parse_index(name));
  throw Error(ErrorCode::Settings,
              "unknown device \"" + name + "\"; possible are auto, cpu, cuda and cuda:N");
}

std::string no_cuda_message(const std::string& name, bool built, const std::string& reason) {
  const std::string asked = "device \"" + name + "\" was asked for, but ";
  if (!built) {
    return asked +
           "this LibTorch is built without CUDA; use device=cpu or auto, or install the CUDA build "
           "of LibTorch";
  }
  // "... too old (found version 11040). Please ..."
  if (mentions(reason, "too old")) {
    const auto begin = reason.find("(found version");
    const auto end = reason.find(')', begin);
    const std::string found =
        begin == std::string::npos ? "" : " " + reason.substr(begin, end + 1 - begin);
    return asked + "the NVIDIA driver is too old for this LibTorch" + found +
           "; update the driver, or install a LibTorch for an older CUDA";
  }
  if (mentions(reason, "no NVIDIA driver")) {
    return asked +
           "no NVIDIA driver is found; install it (nvidia-smi must work), or use device=cpu or "
           "auto";
  }
  const std::string first_line = reason.substr(0, reason.find('\n'));
  return asked + "no CUDA device is present" + (first_line.empty() ? "" : " (" + first_line + ")") +
         "; use device=cpu or auto";
}

std::string device_name(const at::Device& device) {
  if (device.is_cpu()) return "CPU";
  if constexpr (cuda::kCompiled) {
    const std::string name = cuda::device_name(device.index());
    if (!name.empty()) return name;
  }
  return device.str();
}

at::ScalarType resolve_dtype(Dtype dtype, const at::Device& device) {
  switch (dtype) {
    case Dtype::Auto:
      if (device.is_cuda()) return at::kHalf;
      return cpu_has_bfloat16() ? at::kBFloat16 : at::kFloat;
    case Dtype::Float32:
      return at::kFloat;
    case Dtype::BFloat16:
      return at::kBFloat16;
    case Dtype::Float16:
      break;
  }
  if (device.is_cpu()) {
    throw Error(
        ErrorCode::Settings,
        "dtype float16 is not computed on the CPU: its matrix products run hundreds of times "
        "slower than float32 there; use float32, bfloat16 or auto");
  }
  return at::kHalf;
}

at::ScalarType resolve_vae_dtype(Dtype asked, at::ScalarType dtype, bool force_upcast,
                                 const at::Device& device) {
  if (asked != Dtype::Auto) return resolve_dtype(asked, device);
  return dtype == at::kHalf && force_upcast ? at::kFloat : dtype;
}

void use_numerics(bool allow_tf32, bool deterministic) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(allow_tf32);
  context.setAllowTF32CuDNN(allow_tf32);
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
}

std::uint64_t peak_bytes(const at::Device& device) {
  if (device.is_cpu()) return peak_resident_set();
  at::DeviceAllocator* const allocator = at::getDeviceAllocator(device.type());
  if (!allocator->initialized()) return 0;
  const auto stats = allocator->getDeviceStats(device.has_index() ? device.index() : 0);
  constexpr auto kAll = static_cast<std::size_t>(at::CachingAllocator::StatType::AGGREGATE);
  return static_cast<std::uint64_t>(stats.allocated_bytes[kAll].peak);
}

void give_back_cached_memory(const at::Device& device) noexcept {
  if (device.is_cpu()) return;
  try {
    at::DeviceAllocator* const allocator = at::getDeviceAllocator(device.type());
    if (allocator->initialized()) allocator->emptyCache();
    at::getHostAllocator(device.type())->empty_cache();
  } catch (const std::exception&) {
    // A device that has failed tells so where it is used.
  }
}

Dtype public_dtype(at::ScalarType type) {
  if (type == at::kHalf) return Dtype::Float16;
  return type == at::kBFloat16 ? Dtype::BFloat16 : Dtype::Float32;
}

const char* dtype_name(at::ScalarType type) {
  if (type == at::kHalf) return "float16";
  return type == at::kBFloat16 ? "bfloat16" : "float32";
}

}  // namespace normalcrafter
