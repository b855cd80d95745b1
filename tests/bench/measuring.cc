#include "measuring.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "nn/cpu/kernels.h"
#include "nn/winograd.h"

namespace normalcrafter::bench {
namespace {

constexpr const char* kWaitPolicy = "OMP_WAIT_POLICY";

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(": ") + 2);
  }
  return "unknown processor";
}

}  // namespace

void wait_passively(char** argv) {
  if (std::getenv(kWaitPolicy) != nullptr) return;
  setenv(kWaitPolicy, "passive", 0);
  execv("/proc/self/exe", argv);
}

at::Tensor UnkeptWeights::get(const std::string& name, at::IntArrayRef shape,
                              at::ScalarType dtype) {
  at::Tensor tensor = at::empty(shape, dtype);
  if (shape.size() > 1) {
    const double bound = std::sqrt(3 / static_cast<double>(tensor[0].numel()));
    return tensor.uniform_(-bound, bound);
  }
  return name.ends_with("weight") ? tensor.uniform_(0.6, 1.4) : tensor.uniform_(-0.2, 0.2);
}

Methods methods_in(at::ScalarType dtype) {
  return {.element_size = static_cast<int>(c10::elementSize(dtype)),
          .winograd = [=](int in, int out) { return winograd_suits(dtype, at::kCPU, out, in); },
          .winograd_tile =
              [=](const Grid& grid, int in, int out) {
                return static_cast<int>(
                    winograd_tile(dtype, grid.height, grid.width, int64_t{in} * out));
              },
          .temporal_winograd =
              [=](int channels) { return winograd_temporal_suits(dtype, at::kCPU, channels); }};
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.close();
  return static_cast<bool>(file);
}

Report::Report(std::string file, nlohmann::json head)
    : file_(std::move(file)), content_(std::move(head)) {
  content_["processor"] = processor();
  content_["kernels"] = cpu::kernels().name;
  content_["threads"] = at::get_num_threads();
  content_["wait_policy"] = std::getenv(kWaitPolicy);
  content_["results"] = nlohmann::json::array();
  if (!file_.empty() && !std::ofstream(file_))
    throw std::invalid_argument("--json: cannot write " + file_);
}

void Report::print_machine() const {
  std::printf("%s, kernels %s, %d threads, OpenMP wait policy %s\n",
              content_["processor"].get<std::string>().c_str(), cpu::kernels().name,
              content_["threads"].get<int>(), content_["wait_policy"].get<std::string>().c_str());
}

void Report::add(nlohmann::json row) {
  content_["results"].push_back(std::move(row));
  if (!file_.empty()) std::ofstream(file_) << content_.dump(1) << "\n";
}

}  // namespace normalcrafter::bench
