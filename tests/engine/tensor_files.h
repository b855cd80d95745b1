// Small readers and writers for what the Python reference exchanges with the probe: .npy pictures
// and safetensors.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

namespace normalcrafter::test {

/// A C-ordered .npy of uint8, uint16, float32 -> the tensor (uint16 as at::kUInt16).
at::Tensor read_npy(const std::string& path);
void write_npy(const std::string& path, const at::Tensor& tensor);

/// All tensors of a safetensors file as float32.
std::map<std::string, at::Tensor> read_tensors(const std::string& path);
/// float32 tensors to a safetensors file.
void write_tensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors);

}  // namespace normalcrafter::test
