#include "model/device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <charconv>
#include <exception>
#include <fstream>

#include "nn/cpu_features.h"
#include "normalcrafter/error.h"

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

at::Device cuda_device(const std::string& name, int index) {
  const int count = cuda_devices();
  if (count == 0) {
    throw Error(ErrorCode::DeviceUnavailable,
                "device \"" + name + "\" was asked for, but " +
                    (at::hasCUDA() ? "no CUDA device is present"
                                   : "this LibTorch is built without CUDA or finds no driver") +
                    "; use device=cpu or auto, or install the CUDA build of LibTorch");
  }
  if (index >= count) {
    throw Error(ErrorCode::DeviceUnavailable, "device \"" + name + "\" was asked for, but only " +
                                                  std::to_string(count) +
                                                  " CUDA device(s) are present");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace

at::Device resolve_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name == "auto") return cuda_devices() > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  if (name == "cuda") return cuda_device(name, 0);
  if (name.starts_with("cuda:")) return cuda_device(name, parse_index(name));
  throw Error(ErrorCode::Settings,
              "unknown device \"" + name + "\"; possible are auto, cpu, cuda and cuda:N");
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
