// Times each kind of layer at the shapes of a network, against plain ATen in the same type.
//   bench_layers [--width 256] [--height 256] [--frames 14] [--threads 2] [--channels
//   320,640,1280,1280]
//                [--vae 128,256,512,512] [--dtype float32|bfloat16|both] [--json FILE]
// Rates are effective: the direct computation's operations (a multiply-add is 2) per second,
// however few of them a kernel does. Bytes are what input, weights and output take, read or written
// once.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "nn/attention.h"
#include "nn/convolution.h"
#include "nn/group_norm.h"
#include "nn/linear.h"
#include "nn/tensor_pool.h"
#include "random_model.h"

namespace {

using namespace normalcrafter;  // NOLINT: a bench program
using test::RandomWeights;

struct Options {
  int width = 256;
  int height = 256;
  int frames = 14;
  int threads = 2;
  std::vector<int> channels = {320, 640, 1280, 1280};
  std::vector<int> vae = {128, 256, 512, 512};
  std::string dtype = "both";
  std::string json;
};

struct Case {
  std::string layer;
  std::string shape;
  double operations = 0;
  double bytes = 0;
  std::function<void()> ours;
  std::function<void()> aten;
};

double best_seconds(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();  // warmed up
  double best = 1e30;
  double spent = 0;
  for (int i = 0; i < 10 && (i < 3 || spent < 0.5); ++i) {
    const auto start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

std::vector<int> parse_list(const std::string& text) {
  std::vector<int> result;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) result.push_back(std::stoi(item));
  return result;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--width") options.width = std::stoi(value);
    if (name == "--height") options.height = std::stoi(value);
    if (name == "--frames") options.frames = std::stoi(value);
    if (name == "--threads") options.threads = std::stoi(value);
    if (name == "--channels") options.channels = parse_list(value);
    if (name == "--vae") options.vae = parse_list(value);
    if (name == "--dtype") options.dtype = value;
    if (name == "--json") options.json = value;
  }
  return options;
}

std::string text_of(const at::Tensor& x) {
  std::ostringstream text;
  text << x.sizes();
  return text.str();
}

double bytes_of(const at::Tensor& x, double outputs, double weights) {
  return (static_cast<double>(x.numel()) + outputs + weights) *
         static_cast<double>(x.element_size());
}

// One level's layers at [frames, height, width, channels].
std::vector<Case> cases(int frames, int height, int width, int channels, at::ScalarType dtype,
                        bool transformer) {
  RandomWeights source(dtype);
  const Weights weights(source);
  const at::Tensor x = at::randn({frames, height, width, channels}).to(dtype);
  const double pixels = static_cast<double>(frames) * height * width;
  const double c = channels;
  const at::Tensor bias = source.get("b", {channels}, dtype);
  std::vector<Case> result;

  const auto conv = std::make_shared<Conv2d>(weights / "conv", Conv2d::Shape{channels, channels});
  const at::Tensor kernel = source.get("conv.weight", {channels, channels, 3, 3}, dtype)
                                .contiguous(at::MemoryFormat::ChannelsLast);
  result.push_back({"conv 3x3", text_of(x), 18 * pixels * c * c, bytes_of(x, pixels * c, 9 * c * c),
                    [=] { (*conv)(x); }, [=] { at::conv2d(as_nchw(x), kernel, bias, 1, 1); }});

  const auto temporal = std::make_shared<TemporalConv>(weights / "temporal", channels);
  const at::Tensor kernel3 = source.get("temporal.weight", {channels, channels, 3, 1, 1}, dtype);
  const at::Tensor video = x.permute({3, 0, 1, 2}).unsqueeze(0).contiguous();
  result.push_back({"conv temporal", text_of(x), 6 * pixels * c * c,
                    bytes_of(x, pixels * c, 3 * c * c), [=] { (*temporal)(x); },
                    [=] {
                      at::conv3d(video, kernel3, bias, 1, at::IntArrayRef{1, 0, 0});
                    }});

  const auto up = std::make_shared<Upsample>(weights / "up", channels);
  const at::Tensor nchw = as_nchw(x).contiguous();
  result.push_back(
      {"upsample conv", text_of(x), 72 * pixels * c * c, bytes_of(x, 4 * pixels * c, 9 * c * c),
       [=] { (*up)(x); },
       [=] {
         at::conv2d(at::upsample_nearest2d(nchw, {2 * height, 2 * width}), kernel, bias, 1, 1);
       }});

  const auto norm = std::make_shared<GroupNorm>(weights / "norm", channels, 1e-5);
  const at::Tensor gamma = source.get("norm.weight", {channels}, dtype);
  result.push_back(
      {"group norm + SiLU", text_of(x), 10 * pixels * c, bytes_of(x, pixels * c, 0),
       [=] { norm->silu(x); },
       [=] { at::silu(at::group_norm(nchw, GroupNorm::kGroups, gamma, bias, 1e-5)); }});
  if (!transformer) return result;

  const at::Tensor rows = x.view({frames, height * width, channels});
  const auto wide = std::make_shared<Linear>(weights / "wide", channels, 8 * channels);
  const at::Tensor matrix = source.get("wide.weight", {8 * channels, channels}, dtype);
  const at::Tensor wide_bias = source.get("wide.bias", {8 * channels}, dtype);
  result.push_back({"linear c->8c", text_of(rows), 16 * pixels * c * c,
                    bytes_of(rows, 8 * pixels * c, 8 * c * c), [=] { (*wide)(rows); },
                    [=] { at::linear(rows, matrix, wide_bias); }});
  const at::Tensor gated = (*wide)(rows);
  result.push_back({"GEGLU", text_of(gated), 40 * pixels * c, bytes_of(gated, 4 * pixels * c, 0),
                    [=] { geglu(gated); },
                    [=] {
                      const auto halves = gated.chunk(2, -1);
                      halves[0] * at::gelu(halves[1]);
                    }});
  const int heads = std::max(1, channels / 64);
  const auto attention = std::make_shared<SelfAttention>(weights / "attention", channels, heads);
  const double tokens = static_cast<double>(height) * width;
  const at::Tensor qkv = source.get("attention.qkv", {3 * channels, channels}, dtype);
  const at::Tensor out = source.get("attention.out", {channels, channels}, dtype);
  const auto plain = [=](const at::Tensor& input) {
    const auto parts = at::linear(input, qkv).chunk(3, -1);
    at::linear(attend(parts[0].contiguous(), parts[1].contiguous(), parts[2].contiguous(), heads),
               out);
  };
  result.push_back(
      {"attention in a frame", text_of(rows), 8 * pixels * c * c + 4 * pixels * tokens * c,
       bytes_of(rows, pixels * c, 4 * c * c), [=] { (*attention)(rows); }, [=] { plain(rows); }});
  result.push_back({"attention over frames", text_of(rows),
                    8 * pixels * c * c + 4 * pixels * frames * c,
                    bytes_of(rows, pixels * c, 4 * c * c), [=] { attention->across_frames(rows); },
                    [=] { plain(rows.transpose(0, 1).contiguous()); }});
  return result;
}

void run(const std::string& network, const std::vector<Case>& list, const char* dtype,
         nlohmann::json& results) {
  for (const Case& c : list) {
    const double ours = best_seconds(c.ours);
    const double aten = best_seconds(c.aten);
    std::printf(
        "%-5s %-8s %-22s %-24s %8.4f s %7.3f TFLOP/s %7.1f GB/s  ATen %8.4f s  ratio %5.2f\n",
        network.c_str(), dtype, c.layer.c_str(), c.shape.c_str(), ours, c.operations / ours / 1e12,
        c.bytes / ours / 1e9, aten, aten / ours);
    std::fflush(stdout);
    results.push_back({{"network", network},
                       {"dtype", dtype},
                       {"layer", c.layer},
                       {"shape", c.shape},
                       {"seconds", ours},
                       {"effective_flops", c.operations / ours},
                       {"bytes", c.bytes},
                       {"aten_seconds", aten},
                       {"ratio", aten / ours}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const c10::InferenceMode inference;
  const TensorPool::Scope pooled;
  at::set_num_threads(options.threads);
  nlohmann::json results = nlohmann::json::array();
  for (const auto& [type, name] : {std::pair{at::kFloat, "float32"}, {at::kBFloat16, "bfloat16"}}) {
    if (options.dtype != "both" && options.dtype != name) continue;
    const int factor = 1 << (static_cast<int>(options.vae.size()) - 1);
    for (std::size_t i = 0; i < options.channels.size(); ++i) {
      const int shrink = factor << i;
      run("unet",
          cases(options.frames, std::max(1, options.height / shrink),
                std::max(1, options.width / shrink), options.channels[i], type, true),
          name, results);
    }
    for (std::size_t i = 0; i < options.vae.size(); ++i) {
      run("vae",
          cases(4, std::max(1, options.height >> i), std::max(1, options.width >> i),
                options.vae[i], type, false),
          name, results);
    }
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("peak memory %.2f GB\n", static_cast<double>(usage.ru_maxrss) * 1024 / 1e9);
  if (!options.json.empty()) std::ofstream(options.json) << results.dump(1) << "\n";
  return 0;
}
