// A loaded model, shared by the sessions that use it.
#pragma once

#include <cstdint>
#include <string>

#include "normalcrafter/options.h"
#include "normalcrafter/session.h"

namespace normalcrafter {

/// What was taken for a model's options.
struct ModelInfo {
  std::string directory;
  std::string device;            ///< "cpu", "cuda:0", ...
  std::string device_name;       ///< for people, e.g. the GPU's name; "CPU" on the CPU
  Dtype dtype = Dtype::Float32;  ///< never Auto
  std::string axes;              ///< convention stated in normalcrafter.json, or ""
};

/// Bytes that LibTorch has on a device other than the CPU. From any thread.
struct DeviceMemory {
  std::uint64_t allocated = 0;  ///< by tensors
  std::uint64_t reserved = 0;   ///< taken from the device, also what is kept for tensors to come
  std::uint64_t peak = 0;       ///< greatest `allocated` so far
};

/// All zero on the CPU.
struct DeviceStats {
  DeviceMemory memory;
  /// Weights brought to the device, by the stage whose network they are; indexed by Stage.
  std::uint64_t upload_bytes[kStageCount] = {};
  double upload_seconds[kStageCount] = {};  ///< that these copies took, beside the computing
};

/// Opened by Engine::open_model(), which checks what is cheap to check; the weights load in
/// Session::prepare(). The memory is released with the last owner.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  /// Greatest number of bytes in use so far: on the CPU by the whole process (its resident set), on
  /// another device by LibTorch's tensors there. 0 if it cannot be told. From any thread.
  virtual std::uint64_t peak_bytes() const = 0;
  /// From any thread.
  virtual DeviceStats device_stats() const { return {}; }
};

}  // namespace normalcrafter
