// Times each kind of layer at the shapes of a network, against plain ATen in the same type.
//   bench_layers [--width 256] [--height 256] [--frames 14] [--channels 320,640,1280,1280] ...
// --help lists all options; docs/performance.md says what the columns mean.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "architecture.h"
#include "command_line.h"
#include "measuring.h"
#include "model/device.h"
#include "nn/attention.h"
#include "nn/convolution.h"
#include "nn/group_norm.h"
#include "nn/linear.h"
#include "nn/tensor_pool.h"
#include "operations.h"

namespace {

using namespace normalcrafter;         // NOLINT: a bench program
using namespace normalcrafter::bench;  // NOLINT

struct Settings {
  Architecture architecture;
  int width = 256;
  int height = 256;
  int frames = 14;
  int decode_frames = 4;
  int threads = 2;
  std::string dtype = "both";
  std::string json;
};

bool parse(int argc, char** argv, Settings& settings) {
  CommandLine line(
      "bench_layers: times the layers of the UNet's and the VAE's levels, and ATen's.\n"
      "Options and their defaults:");
  line.add("--width", settings.width, "of the pictures");
  line.add("--height", settings.height, "of the pictures");
  line.add("--frames", settings.frames, "frames of a UNet window");
  line.add("--decode-frames", settings.decode_frames, "frames of a VAE decoder chunk");
  line.add("--threads", settings.threads, "threads of the layers");
  line.add("--dtype", settings.dtype, "type", {"both", "float32", "bfloat16"});
  settings.architecture.add_widths(line);
  line.add("--json", settings.json, "file for the results");
  if (line.parse({argv + 1, argv + argc})) return true;
  std::printf("%s", line.help().c_str());
  return false;
}

struct Case {
  std::string layer;
  std::string shape;
  Work work;
  std::function<void()> ours;
  std::function<void()> aten;
};

double best_seconds(const std::function<void()>& work) {
  work();  // warmed up
  double best = 1e30;
  double spent = 0;
  for (int i = 0; i < 10 && (i < 3 || spent < 0.5); ++i) {
    const double seconds = seconds_of(work);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

std::string text_of(const at::Tensor& x) {
  std::ostringstream text;
  text << x.sizes();
  return text.str();
}

/// The layers of one level, at activations [frames, height, width, channels].
class Level {
 public:
  Level(const Grid& grid, int channels, at::ScalarType dtype)
      : grid_(grid),
        c_(channels),
        source_(dtype),
        weights_(source_),
        operations_(methods_in(dtype)),
        x_(at::randn({grid.frames, grid.height, grid.width, channels}).to(dtype)) {}

  std::vector<Case> convolutions() {
    return {convolution(), temporal_convolution(), upsample_convolution(), group_norm()};
  }
  std::vector<Case> transformer(int context_channels) {
    const int heads = std::max(1, c_ / 64);
    return {wide_linear(), gated_gelu(), attention_in_a_frame(heads), attention_over_frames(heads),
            cross_attention(heads, context_channels)};
  }
  Case attention_in_a_frame(int heads);

 private:
  at::Tensor weight(at::IntArrayRef shape) {
    return source_.get("weight", shape, x_.scalar_type());
  }
  at::Tensor rows() const { return x_.view({grid_.frames, -1, c_}); }
  double size() const { return grid_.pixels() * c_; }

  Case convolution();
  Case temporal_convolution();
  Case upsample_convolution();
  Case group_norm();
  Case wide_linear();
  Case gated_gelu();
  Case attention_over_frames(int heads);
  Case cross_attention(int heads, int context_channels);
  std::function<void(const at::Tensor&)> plain_attention(int heads);

  Grid grid_;
  int c_;
  UnkeptWeights source_;
  Weights weights_;
  Operations operations_;
  at::Tensor x_;
};

Case Level::convolution() {
  const auto layer = std::make_shared<Conv2d>(weights_, Conv2d::Shape{c_, c_});
  const at::Tensor kernel = weight({c_, c_, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor bias = weight({c_});
  return {"conv 3x3", text_of(x_), operations_.convolution(grid_, c_, c_),
          [=, x = x_] { (*layer)(x); },
          [=, x = x_] { at::conv2d(as_nchw(x), kernel, bias, 1, 1); }};
}

Case Level::temporal_convolution() {
  const auto layer = std::make_shared<TemporalConv>(weights_, c_);
  const at::Tensor kernel = weight({c_, c_, 3, 1, 1});
  const at::Tensor bias = weight({c_});
  const at::Tensor video = x_.permute({3, 0, 1, 2}).unsqueeze(0).contiguous();
  return {"conv temporal", text_of(x_), operations_.temporal_convolution(grid_, c_),
          [=, x = x_] { (*layer)(x); },
          [=] {
            at::conv3d(video, kernel, bias, 1, at::IntArrayRef{1, 0, 0});
          }};
}

Case Level::upsample_convolution() {
  const auto layer = std::make_shared<Upsample>(weights_, c_);
  const at::Tensor kernel = weight({c_, c_, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor bias = weight({c_});
  const at::Tensor nchw = as_nchw(x_).contiguous();
  const std::vector<int64_t> doubled = {2 * grid_.height, 2 * grid_.width};
  return {"upsample conv", text_of(x_), operations_.upsample_convolution(grid_, c_),
          [=, x = x_] { (*layer)(x); },
          [=] { at::conv2d(at::upsample_nearest2d(nchw, doubled), kernel, bias, 1, 1); }};
}

Case Level::group_norm() {
  const auto layer = std::make_shared<GroupNorm>(weights_, c_, 1e-5);
  const at::Tensor gamma = weight({c_});
  const at::Tensor beta = weight({c_});
  const at::Tensor nchw = as_nchw(x_).contiguous();
  return {"group norm + SiLU", text_of(x_), operations_.elementwise(size(), size()),
          [=, x = x_] { layer->silu(x); },
          [=] { at::silu(at::group_norm(nchw, GroupNorm::kGroups, gamma, beta, 1e-5)); }};
}

Case Level::wide_linear() {
  const auto layer = std::make_shared<Linear>(weights_, c_, 8 * c_);
  const at::Tensor matrix = weight({8 * c_, c_});
  const at::Tensor bias = weight({8 * c_});
  return {"linear c->8c", text_of(rows()), operations_.linear(grid_.pixels(), c_, 8 * c_),
          [=, x = rows()] { (*layer)(x); }, [=, x = rows()] { at::linear(x, matrix, bias); }};
}

Case Level::gated_gelu() {
  const at::Tensor x = at::randn({grid_.frames, grid_.height * grid_.width, 8 * c_}).to(x_.dtype());
  const auto aten = [=] {
    const auto halves = x.chunk(2, -1);
    halves[0] * at::gelu(halves[1]);
  };
  return {"GEGLU", text_of(x), operations_.elementwise(8 * size(), 4 * size()), [=] { geglu(x); },
          aten};
}

std::function<void(const at::Tensor&)> Level::plain_attention(int heads) {
  const at::Tensor qkv = weight({3 * c_, c_});
  const at::Tensor out = weight({c_, c_});
  const int64_t depth = c_ / heads;
  return [=](const at::Tensor& x) {
    // [B, L, 3, heads, d] -> three of [B, heads, L, d]
    const auto parts = at::linear(x, qkv)
                           .view({x.size(0), x.size(1), 3, heads, depth})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const at::Tensor attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    at::linear(attended.transpose(1, 2).reshape(x.sizes()), out);
  };
}

Case Level::attention_in_a_frame(int heads) {
  const auto layer = std::make_shared<SelfAttention>(weights_, c_, heads);
  const double tokens = grid_.pixels() / grid_.frames;
  return {"attention in a frame", text_of(rows()),
          operations_.self_attention(grid_.frames, tokens, c_), [=, x = rows()] { (*layer)(x); },
          [plain = plain_attention(heads), x = rows()] { plain(x); }};
}

Case Level::attention_over_frames(int heads) {
  const auto layer = std::make_shared<SelfAttention>(weights_, c_, heads);
  const double positions = grid_.pixels() / grid_.frames;
  return {"attention over frames", text_of(rows()),
          operations_.self_attention(positions, grid_.frames, c_),
          [=, x = rows()] { layer->across_frames(x); },
          [plain = plain_attention(heads), x = rows()] { plain(x.transpose(0, 1).contiguous()); }};
}

Case Level::cross_attention(int heads, int context_channels) {
  const auto layer = std::make_shared<SingleTokenCrossAttention>(weights_, c_, context_channels);
  const at::Tensor context = at::randn({grid_.frames, 1, context_channels}).to(x_.dtype());
  const at::Tensor q = weight({c_, c_});
  const at::Tensor k = weight({c_, context_channels});
  const at::Tensor v = weight({c_, context_channels});
  const at::Tensor out = weight({c_, c_});
  const auto aten = [=, x = rows()] {
    x + at::linear(attend(at::linear(x, q), at::linear(context, k), at::linear(context, v), heads),
                   out);
  };
  return {"cross attention", text_of(rows()),
          operations_.single_token_cross_attention(grid_.pixels(), grid_.frames, grid_.frames, c_,
                                                   context_channels),
          [=, x = rows()] { x + (*layer)(context); }, aten};
}

// A layer without products has no rate.
std::string teraflops(double operations, double seconds) {
  if (operations == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", operations / seconds / 1e12);
  return text;
}

void run(const std::string& network, const char* dtype, const std::vector<Case>& cases,
         Report& results) {
  for (const Case& c : cases) {
    const double ours = best_seconds(c.ours);
    const double aten = best_seconds(c.aten);
    std::printf("%-6s%-10s%-23s%-23s%9.4f%11s%10s%9.1f%9.4f%7.2f\n", network.c_str(), dtype,
                c.layer.c_str(), c.shape.c_str(), ours, teraflops(c.work.direct, ours).c_str(),
                teraflops(c.work.performed, ours).c_str(), c.work.bytes / ours / 1e9, aten,
                aten / ours);
    std::fflush(stdout);
    results.add({{"network", network},
                 {"dtype", dtype},
                 {"layer", c.layer},
                 {"shape", c.shape},
                 {"seconds", ours},
                 {"effective_flops", c.work.direct / ours},
                 {"achieved_flops", c.work.performed / ours},
                 {"bytes", c.work.bytes},
                 {"aten_seconds", aten},
                 {"ratio", aten / ours}});
  }
}

// Side of a level's activations, `halvings` below the pictures.
int side(int pixels, std::size_t halvings) {
  return std::max(1, pixels >> halvings);
}

void run_levels(const Settings& s, at::ScalarType type, const char* dtype, Report& results) {
  const auto& channels = s.architecture.channels;
  const auto& vae = s.architecture.vae;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const std::size_t halvings = vae.size() - 1 + i;
    Level level({s.frames, side(s.height, halvings), side(s.width, halvings)}, channels[i], type);
    run("unet", dtype, level.convolutions(), results);
    run("unet", dtype, level.transformer(s.architecture.context), results);
  }
  for (std::size_t i = 0; i < vae.size(); ++i) {
    Level level({s.decode_frames, side(s.height, i), side(s.width, i)}, vae[i], type);
    run("vae", dtype, level.convolutions(), results);
    if (i + 1 == vae.size()) run("vae", dtype, {level.attention_in_a_frame(1)}, results);
  }
}

int bench_layers(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) return 0;
  settings.architecture.config();  // checks the widths
  const c10::InferenceMode inference;
  const TensorPool::Scope pooled;
  at::set_num_threads(settings.threads);
  Report results(
      settings.json,
      {{"program", "bench_layers"}, {"width", settings.width}, {"height", settings.height}});
  results.print_machine();
  std::printf(
      "%dx%d. effective: operations of the direct computation; achieved: of the products "
      "that the engine does;\n"
      "moved: input, weights and output once; ratio: ATen's seconds / the engine's\n",
      settings.width, settings.height);
  std::printf("%-16s%-23s%-23s%9s%11s%10s%9s%9s%7s\n", "", "layer", "input", "s", "effective",
              "achieved", "moved", "ATen s", "ratio");
  std::printf("%71s%11s%10s%9s\n", "", "TFLOP/s", "TFLOP/s", "GB/s");
  if (settings.dtype != "bfloat16") run_levels(settings, at::kFloat, "float32", results);
  if (settings.dtype != "float32") run_levels(settings, at::kBFloat16, "bfloat16", results);
  std::printf("peak memory %.2f GB\n", static_cast<double>(peak_bytes(at::kCPU)) / 1e9);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  wait_passively(argv);
  return bench_layers(argc, argv);
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "bench_layers: %s\n", error.what());
  return 2;
}
