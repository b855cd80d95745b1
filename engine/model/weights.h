// A component's tensors, converted to what the networks compute in, one at a time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/directory.h"
#include "model/safetensors.h"
#include "nn/checkpoint.h"
#include "nn/weight_source.h"

namespace normalcrafter {

/// The opened files of one component with checked headers, for any number of loads. Keeps the files
/// open, so that a directory deleted or replaced later does not matter. Thread-safe.
class ComponentTensors {
 public:
  struct Tensor {
    const SafetensorsFile* file = nullptr;
    const SafetensorsEntry* entry = nullptr;
  };

  /// Throws Error InvalidModel when a file is malformed, when two files hold one name, or when a
  /// shard lacks a tensor that the index places there; NotFound or OpenRead.
  explicit ComponentTensors(const WeightFiles& weights);

  /// The file, or the index of the shards, for messages.
  const std::string& name() const { return name_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  /// Of all tensors.
  std::uint64_t bytes() const { return bytes_; }
  /// False once one of the files has been replaced, deleted or written to.
  bool is_current() const noexcept;

 private:
  std::string name_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, Tensor> tensors_;
  std::uint64_t bytes_ = 0;
};

/// Bytes of the component's files that are done with, and in all. Tensors nobody asks for stay
/// undone.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// One load of a component. For one thread.
class SafetensorsWeights : public WeightSource {
 public:
  /// `dtype` and `device` are what the networks are told; tensors come in host memory. Calls
  /// `checkpoint` and `progress` (may be empty) between tensors and, within large ones, every few
  /// MB.
  SafetensorsWeights(std::shared_ptr<const ComponentTensors> component, at::ScalarType dtype,
                     at::Device device, const Checkpoint& checkpoint, LoadProgress progress = {});

  bool has(const std::string& name) const override;
  /// From F32, F16, BF16 or F64. Equal dtypes are read straight into the result; others pass
  /// through a buffer of a few MB, so that peak memory is one tensor. Throws Error InvalidModel
  /// (missing, shape, dtype), OpenRead, OutOfMemory, Cancelled.
  at::Tensor get(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype) override;
  /// Each thread reads, converts and packs whole panels, which stay in its caches between.
  at::Tensor get_in_panels(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype,
                           const Panels& panels) override;
  void skip(const std::string& name, at::IntArrayRef shape) override;
  at::ScalarType dtype() const override { return dtype_; }
  at::Device device() const override { return device_; }

  /// What neither get() nor skip() asked for: superfluous once the networks are built. Sorted.
  std::vector<std::string> unused() const;

 private:
  const ComponentTensors::Tensor& use(const std::string& name, at::IntArrayRef shape);
  bool first_use(const std::string& name);
  void read_converted(const ComponentTensors::Tensor& tensor, at::ScalarType source,
                      at::Tensor& result, bool counts);
  void advance(std::uint64_t bytes);

  std::shared_ptr<const ComponentTensors> component_;
  at::ScalarType dtype_;
  at::Device device_;
  Checkpoint checkpoint_;
  LoadProgress progress_;
  std::set<std::string> used_;
  at::Tensor scratch_;  // get_in_panels()'s
  std::uint64_t done_ = 0;
};

}  // namespace normalcrafter
