// How layers get their parameters: by published name and expected shape.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <string_view>

#include "nn/panels.h"

namespace normalcrafter {

/// Implemented by model/weights over safetensors files, by tests over maps of tensors.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual bool has(const std::string& name) const = 0;
  /// The tensor `name` as `dtype`, in host memory, contiguous and owned by the caller. Throws Error
  /// InvalidModel naming it when it is missing or not of `shape`.
  virtual at::Tensor get(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype) = 0;
  /// The same tensor in panels, its first dimension being the rows. Overridden where that spares
  /// passes over the memory.
  virtual at::Tensor get_in_panels(const std::string& name, at::IntArrayRef shape,
                                   at::ScalarType dtype, const Panels& panels) {
    return in_panels(get(name, shape, dtype).flatten(1), panels);
  }
  /// Marks `name` as known but not needed (a parameter that cannot change the result), after
  /// checking its shape; it is not read.
  virtual void skip(const std::string& name, at::IntArrayRef shape) = 0;
  /// What the networks compute in.
  virtual at::ScalarType dtype() const = 0;
  /// Where the networks' prepared parameters belong.
  virtual at::Device device() const = 0;
};

/// A WeightSource below a prefix: Weights(source, "down_blocks.0.") / "resnets.1." / ...
class Weights {
 public:
  explicit Weights(WeightSource& source, std::string prefix = {})
      : source_(&source), prefix_(std::move(prefix)) {}

  /// The scope of a submodule: names below it start with "`module`.".
  Weights operator/(std::string_view module) const {
    return Weights(*source_, prefix_ + std::string(module) + ".");
  }
  Weights operator/(int index) const { return *this / std::to_string(index); }

  bool has(const std::string& name) const { return source_->has(prefix_ + name); }
  /// On the host, in the compute dtype.
  at::Tensor get(const std::string& name, at::IntArrayRef shape) const {
    return source_->get(prefix_ + name, shape, source_->dtype());
  }
  /// On the host, in the compute dtype, in panels.
  at::Tensor get_in_panels(const std::string& name, at::IntArrayRef shape,
                           const Panels& panels) const {
    return source_->get_in_panels(prefix_ + name, shape, source_->dtype(), panels);
  }
  /// On the host, in float32: for parameters that are folded into others before they are rounded.
  at::Tensor get_float(const std::string& name, at::IntArrayRef shape) const {
    return source_->get(prefix_ + name, shape, at::kFloat);
  }
  void skip(const std::string& name, at::IntArrayRef shape) const {
    source_->skip(prefix_ + name, shape);
  }
  at::ScalarType dtype() const { return source_->dtype(); }
  at::Device device() const { return source_->device(); }
  const std::string& prefix() const { return prefix_; }

 private:
  WeightSource* source_;
  std::string prefix_;
};

}  // namespace normalcrafter
