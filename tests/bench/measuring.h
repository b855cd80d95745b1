// What the bench programs measure with, and how they report.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "nn/weight_source.h"
#include "operations.h"

namespace normalcrafter::bench {

/// Starts the program again with OMP_WAIT_POLICY=passive unless the variable is set: LibTorch's
/// OpenMP reads it when it is loaded. The plugin sets the same.
void wait_passively(char** argv);

/// Makes any tensor asked for, with random values scaled so that activations keep their size, and
/// keeps none.
class UnkeptWeights final : public WeightSource {
 public:
  explicit UnkeptWeights(at::ScalarType dtype) : dtype_(dtype) {}
  bool has(const std::string&) const override { return true; }
  at::Tensor get(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype) override;
  void skip(const std::string&, at::IntArrayRef) override {}
  at::ScalarType dtype() const override { return dtype_; }
  at::Device device() const override { return at::kCPU; }

 private:
  at::ScalarType dtype_;
};

/// What the engine's layers do with weights of this type on this machine.
Methods methods_in(at::ScalarType dtype);

/// Of one run of `work`.
double seconds_of(const std::function<void()>& work);

/// Lets peak_bytes() begin anew. False where the system does not allow it.
bool reset_peak();

/// Rows of results in a JSON file, with the machine and the settings that hold for all of them.
class Report {
 public:
  /// `file` may be "". Throws std::invalid_argument if it cannot be written.
  Report(std::string file, nlohmann::json head);
  /// Prints what a table's reader has to know about the machine.
  void print_machine() const;
  /// Writes the file, so that a run that is stopped leaves what it has.
  void add(nlohmann::json row);

 private:
  std::string file_;
  nlohmann::json content_;
};

}  // namespace normalcrafter::bench
