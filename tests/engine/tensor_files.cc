#include "tensor_files.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "model/safetensors.h"
#include "model/weights.h"

namespace normalcrafter::test {
namespace {

struct NpyType {
  const char* descr;
  at::ScalarType type;
};
constexpr NpyType kTypes[] = {{"|u1", at::kByte}, {"<u2", at::kUInt16}, {"<f4", at::kFloat}};

std::string after(const std::string& header, const std::string& key) {
  const auto at = header.find("'" + key + "':");
  if (at == std::string::npos) throw std::runtime_error("npy header without " + key);
  return header.substr(header.find_first_not_of(' ', at + key.size() + 3));
}

}  // namespace

at::Tensor read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char start[10];
  if (!file.read(start, sizeof start) || std::memcmp(start, "\x93NUMPY\x01", 7) != 0)
    throw std::runtime_error(path + " is not a version 1 .npy");
  std::string header(
      static_cast<unsigned char>(start[8]) | static_cast<unsigned char>(start[9]) << 8, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (after(header, "fortran_order").rfind("False", 0) != 0)
    throw std::runtime_error(path + " is not in C order");
  std::vector<int64_t> shape;
  std::string sizes = after(header, "shape");
  std::istringstream numbers(sizes.substr(1, sizes.find(')') - 1));
  for (std::string item; std::getline(numbers, item, ',');) {
    if (item.find_first_of("0123456789") != std::string::npos) shape.push_back(std::stoll(item));
  }
  const std::string descr = after(header, "descr").substr(1, 3);
  for (const auto& known : kTypes) {
    if (descr != known.descr) continue;
    at::Tensor tensor = at::empty(shape, known.type);
    file.read(static_cast<char*>(tensor.mutable_data_ptr()),
              static_cast<std::streamsize>(tensor.nbytes()));
    if (!file) throw std::runtime_error(path + " is short");
    return tensor;
  }
  throw std::runtime_error(path + " has type " + descr);
}

void write_npy(const std::string& path, const at::Tensor& tensor) {
  std::string descr;
  for (const auto& known : kTypes) {
    if (known.type == tensor.scalar_type()) descr = known.descr;
  }
  std::string shape;
  for (const int64_t size : tensor.sizes()) shape += std::to_string(size) + ", ";
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  file.put(static_cast<char>(header.size() & 0xFF)).put(static_cast<char>(header.size() >> 8));
  file << header;
  const at::Tensor data = tensor.contiguous();
  file.write(static_cast<const char*>(data.const_data_ptr()),
             static_cast<std::streamsize>(data.nbytes()));
  if (!file) throw std::runtime_error("cannot write " + path);
}

std::map<std::string, at::Tensor> read_tensors(const std::string& path) {
  const std::atomic<bool> never = false;
  const auto component = std::make_shared<ComponentTensors>(WeightFiles{path, {path}, {}});
  SafetensorsWeights weights(component, at::kFloat, at::kCPU, Checkpoint(never));
  std::map<std::string, at::Tensor> result;
  for (const auto& [name, tensor] : component->tensors()) {
    const std::vector<int64_t> shape(tensor.entry->shape.begin(), tensor.entry->shape.end());
    result[name] = weights.get(name, shape, at::kFloat);
  }
  return result;
}

void write_tensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::uint64_t end = offset + tensor.numel() * sizeof(float);
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor data = tensor.to(at::kFloat).contiguous();
    file.write(static_cast<const char*>(data.const_data_ptr()),
               static_cast<std::streamsize>(data.nbytes()));
  }
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace normalcrafter::test
