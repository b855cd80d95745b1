// Model directories with random weights, made by the tests themselves in the published layout.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "model/config.h"
#include "nn/weight_source.h"

namespace normalcrafter::test {

/// Answers any name with a random float32 tensor that depends on the name only, scaled so that
/// activations keep their size, and remembers it.
class RandomWeights final : public WeightSource {
 public:
  explicit RandomWeights(at::ScalarType dtype = at::kFloat) : dtype_(dtype) {}
  bool has(const std::string&) const override { return true; }
  at::Tensor get(const std::string& name, at::IntArrayRef shape, at::ScalarType dtype) override;
  void skip(const std::string& name, at::IntArrayRef shape) override {
    get(name, shape, at::kFloat);
  }
  at::ScalarType dtype() const override { return dtype_; }
  at::Device device() const override { return at::kCPU; }
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }

 private:
  at::ScalarType dtype_;
  std::map<std::string, at::Tensor> tensors_;
};

/// The smallest networks of the published architecture: two levels of 32 channels, a VAE of factor
/// 2, a CLIP encoder of one layer. sigma_max 2, at which the windows' seeds matter.
ModelConfig tiny_config();

/// Writes configurations and weights for `config` below `directory`.
void write_model(const std::string& directory, const ModelConfig& config);

}  // namespace normalcrafter::test
