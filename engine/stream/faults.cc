#include "stream/faults.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>

#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

bool mentions(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

const char* memory_advice(const std::optional<Stage>& stage) {
  if (!stage) return "lower windows-per-pass or max-resolution";
  switch (*stage) {
    case Stage::Load:
      return "use offload-mode=staged or dtype=bfloat16";
    case Stage::Clip:
      return "lower clip-chunk-size or use offload-mode=staged";
    case Stage::Encode:
      return "lower vae-encode-chunk-size or max-resolution, or use offload-mode=staged";
    case Stage::Unet:
      return "lower max-resolution or window-size, or use offload-mode=staged or streamed";
    case Stage::Decode:
      return "lower vae-decode-chunk-size or max-resolution, or use offload-mode=staged";
  }
  return "";
}

std::string where(const std::optional<Stage>& stage) {
  return stage ? stage_name(*stage) : "taking a frame";
}

[[noreturn]] void throw_out_of_memory(const std::optional<Stage>& stage, const std::string& why) {
  const std::string size = size_asked_for(why);
  throw Error(ErrorCode::OutOfMemory,
              std::string("out of memory ") +
                  (stage ? std::string("in ") + stage_name(*stage) : "while taking a frame") +
                  (size.empty() ? "" : ": " + size + " more could not be had") + "; " +
                  memory_advice(stage));
}

[[noreturn]] void throw_fault(const std::optional<Stage>& stage, const std::string& why) {
  switch (fault_of(why)) {
    case Fault::Memory:
      throw_out_of_memory(stage, why);
    case Fault::Device:
      throw Error(ErrorCode::DeviceUnavailable,
                  "the device failed in " + where(stage) + " (" + why.substr(0, why.find('\n')) +
                      "); restart the program, and if it happens again look at the driver's log "
                      "(dmesg), or use device=cpu");
    case Fault::Other:
      break;
  }
  throw Error(ErrorCode::NetworkFailed, where(stage) + " failed: " + why);
}

std::string mebibytes(const std::string& digits) {
  const std::uint64_t bytes = std::strtoull(digits.c_str(), nullptr, 10);
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

}  // namespace

std::string message_of(const std::exception& exception) {
  const auto* const error = dynamic_cast<const c10::Error*>(&exception);
  return error != nullptr ? error->what_without_backtrace() : exception.what();
}

Fault fault_of(const std::string& message) {
  if (mentions(message,
               {"DefaultCPUAllocator", "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED"}))
    return Fault::Memory;
  if (mentions(message,
               {"unspecified launch failure", "illegal memory access", "uncorrectable ECC",
                "device-side assert", "misaligned address", "illegal instruction", "GPU is lost",
                "device is lost", "busy or unavailable", "no CUDA-capable device", "unknown error",
                "hardware stack error", "launch timed out"}) &&
      mentions(message, {"CUDA", "CUBLAS", "CUDNN"}))
    return Fault::Device;
  return Fault::Other;
}

bool is_out_of_memory(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error.code() == ErrorCode::OutOfMemory;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::exception& error) {
    return fault_of(message_of(error)) == Fault::Memory;
  } catch (...) {
    return false;
  }
}

bool is_device_fault(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error.code() == ErrorCode::DeviceUnavailable;
  } catch (const std::exception& error) {
    return fault_of(message_of(error)) == Fault::Device;
  } catch (...) {
    return false;
  }
}

std::string size_asked_for(const std::string& message) {
  // The CUDA allocator: "Tried to allocate 2.00 GiB. GPU 0 has ..."
  constexpr const char* kCuda = "Tried to allocate ";
  if (const auto begin = message.find(kCuda); begin != std::string::npos) {
    const auto from = begin + std::char_traits<char>::length(kCuda);
    return message.substr(from, message.find(". ", from) - from);
  }
  // The CPU's: "can't allocate memory: you tried to allocate 70368744177664 bytes."
  constexpr const char* kCpu = "you tried to allocate ";
  if (const auto begin = message.find(kCpu); begin != std::string::npos)
    return mebibytes(message.substr(begin + std::char_traits<char>::length(kCpu)));
  return "";
}

void rethrow_as_error(const std::optional<Stage>& stage) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    throw_out_of_memory(stage, message_of(error));
  } catch (const std::bad_alloc&) {
    throw_out_of_memory(stage, "");
  } catch (const std::exception& error) {
    throw_fault(stage, message_of(error));  // kernels of the engine's own among them
  }
}

}  // namespace normalcrafter
