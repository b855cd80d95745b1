// Times the engine's four stages as a session runs them, on random weights made in memory.
//   bench_stages [--width 512 --height 320] [--stage unet] [--dtype float32] [--json FILE] ...
// --help lists all options; docs/performance.md says what the columns mean.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "architecture.h"
#include "command_line.h"
#include "measuring.h"
#include "model/device.h"
#include "networks/clip_vision_encoder.h"
#include "networks/euler_step.h"
#include "networks/temporal_vae.h"
#include "networks/unet_spatio_temporal.h"
#include "nn/checkpoint.h"
#include "nn/tensor_pool.h"
#include "operations.h"

namespace {

using namespace normalcrafter;         // NOLINT: a bench program
using namespace normalcrafter::bench;  // NOLINT

struct Settings {
  Architecture architecture;
  int width = 256;
  int height = 256;
  int clip_frames = 14;
  int encode_frames = 7;
  int window = 14;
  int step = 10;
  int decode_frames = 4;
  int repeats = 2;
  int threads = 2;
  std::string stage = "all";
  std::string dtype = "both";
  std::string json;

  Grid pictures(int frames) const { return {frames, height, width}; }
};

bool parse(int argc, char** argv, Settings& settings) {
  CommandLine line(
      "bench_stages: times CLIP, VAE encoder, UNet and VAE decoder on random weights.\n"
      "Options and their defaults:");
  line.add("--width", settings.width, "of the pictures");
  line.add("--height", settings.height, "of the pictures");
  line.add("--clip-frames", settings.clip_frames, "frames of a CLIP batch");
  line.add("--encode-frames", settings.encode_frames, "frames of a VAE encoder batch");
  line.add("--frames", settings.window, "frames of a UNet window");
  line.add("--step", settings.step, "new frames of a window, for the sum");
  line.add("--decode-frames", settings.decode_frames, "frames of a VAE decoder chunk");
  line.add("--repeats", settings.repeats, "runs of a stage, the fastest of which counts");
  line.add("--threads", settings.threads, "threads of the networks");
  line.add("--stage", settings.stage, "which", {"all", "clip", "encode", "unet", "decode"});
  line.add("--dtype", settings.dtype, "type", {"both", "float32", "bfloat16"});
  settings.architecture.add_widths(line);
  settings.architecture.add_depths(line);
  line.add("--json", settings.json, "file for the results");
  if (!line.parse({argv + 1, argv + argc})) {
    std::printf("%s", line.help().c_str());
    return false;
  }
  const int multiple = settings.architecture.multiple();
  if (settings.width % multiple != 0 || settings.height % multiple != 0)
    throw std::invalid_argument("--width and --height must be multiples of " +
                                std::to_string(multiple) + " for these networks");
  return true;
}

const std::atomic<bool> kNever = false;
const Checkpoint kCheckpoint(kNever);

/// A stage: builds its network, and then computes as the loaded model does in a session.
struct Stage {
  const char* name;
  int frames;  ///< that it takes at once
  Work work;
  std::function<std::function<void()>(WeightSource&)> build;
};

Stage clip_stage(const Settings& s, const ModelConfig& config, const Operations& operations) {
  const auto build = [&s, config](WeightSource& source) -> std::function<void()> {
    const auto network = std::make_shared<const ClipVisionEncoder>(Weights(source), config.clip);
    const at::Tensor frames = at::rand({s.clip_frames, 3, s.height, s.width});
    return [=] { (*network)(clip_preprocess(frames, config.clip, ClipResize::Seed), kCheckpoint); };
  };
  return {"clip", s.clip_frames, operations.clip(config.clip, s.clip_frames), build};
}

Stage encode_stage(const Settings& s, const ModelConfig& config, const Operations& operations) {
  const auto build = [&s, config](WeightSource& source) -> std::function<void()> {
    const auto network = std::make_shared<const VaeEncoder>(Weights(source), config.vae);
    const at::Tensor frames = at::rand({s.encode_frames, 3, s.height, s.width});
    return [=] { (*network)(frames * 2 - 1, kCheckpoint); };
  };
  return {"encode", s.encode_frames, operations.vae_encode(config.vae, s.pictures(s.encode_frames)),
          build};
}

Stage unet_stage(const Settings& s, const ModelConfig& config, const Operations& operations) {
  const int channels = config.vae.latent_channels;
  const Grid grid = s.pictures(s.window).shrunk(config.vae.spatial_factor());
  const auto build = [=](WeightSource& source) -> std::function<void()> {
    const auto network = std::make_shared<const UNetSpatioTemporal>(Weights(source), config.unet,
                                                                    config.euler.timestep);
    const auto options = at::TensorOptions(source.dtype());
    const at::Tensor latents = at::randn({grid.frames, channels, grid.height, grid.width}, options);
    const at::Tensor normals = at::randn_like(latents);
    const at::Tensor context = at::randn({grid.frames, 1, config.clip.projection_dim}, options);
    const double sigma = config.euler.sigma;
    return [=] {
      const at::Tensor sample = at::cat({euler_scale_input(normals, sigma), latents}, 1);
      euler_step((*network)(sample, context, kCheckpoint), normals, sigma);
    };
  };
  return {"unet", s.window, operations.unet(config.unet, grid), build};
}

Stage decode_stage(const Settings& s, const ModelConfig& config, const Operations& operations) {
  const int channels = config.vae.latent_channels;
  const Grid grid = s.pictures(s.decode_frames).shrunk(config.vae.spatial_factor());
  const auto build = [=](WeightSource& source) -> std::function<void()> {
    const auto network = std::make_shared<const VaeDecoder>(Weights(source), config.vae);
    const at::Tensor latents =
        at::randn({grid.frames, channels, grid.height, grid.width}, source.dtype());
    return [=] { (*network)(latents / config.vae.scaling_factor, kCheckpoint); };
  };
  return {"decode", s.decode_frames, operations.vae_decode(config.vae, grid), build};
}

struct Measured {
  double build_seconds = 0;
  double seconds = 0;
  std::uint64_t peak = 0;  ///< with the network's weights and LibTorch itself
  bool peak_is_its_own = false;
};

Measured measure(const Stage& stage, at::ScalarType dtype, int repeats) {
  Measured result;
  {
    const TensorPool::Scope pooled;
    UnkeptWeights source(dtype);
    std::function<void()> compute;
    result.build_seconds = seconds_of([&] { compute = stage.build(source); });
    TensorPool::trim();
    malloc_trim(0);
    result.peak_is_its_own = reset_peak();
    result.seconds = seconds_of(compute);
    for (int i = 1; i < repeats; ++i)
      result.seconds = std::min(result.seconds, seconds_of(compute));
    result.peak = peak_bytes(at::kCPU);
  }
  TensorPool::trim();
  return result;
}

void report(const Settings& settings, const Stage& stage, const Measured& measured,
            const char* dtype, Report& results) {
  const double seconds = measured.seconds;
  std::printf("%-8s%-10s%7d%10.3f%10.4f%12.3f%12.3f%10.2f%9.1f%9.2f\n", stage.name, dtype,
              stage.frames, seconds, seconds / stage.frames, stage.work.direct / seconds / 1e12,
              stage.work.performed / seconds / 1e12, stage.work.bytes / 1e9,
              stage.work.bytes / seconds / 1e9, static_cast<double>(measured.peak) / 1e9);
  std::fflush(stdout);
  results.add({{"stage", stage.name},
               {"dtype", dtype},
               {"frames", stage.frames},
               {"width", settings.width},
               {"height", settings.height},
               {"seconds", seconds},
               {"build_seconds", measured.build_seconds},
               {"operations", stage.work.direct},
               {"performed_operations", stage.work.performed},
               {"effective_flops", stage.work.direct / seconds},
               {"achieved_flops", stage.work.performed / seconds},
               {"bytes", stage.work.bytes},
               {"peak_bytes", measured.peak},
               {"peak_since_start", !measured.peak_is_its_own}});
}

// What a frame of a long clip takes: each stage does it once, but the UNet sees window / step times
// as many.
double per_output_frame(const Settings& settings, const Stage& stage, double seconds) {
  const int frames = std::string(stage.name) == "unet" ? settings.step : stage.frames;
  return seconds / frames;
}

void run(const Settings& settings, const ModelConfig& config, at::ScalarType dtype,
         const char* name, Report& results) {
  const Operations operations(methods_in(dtype));
  double sum = 0;
  bool all = true;
  for (const Stage& stage :
       {clip_stage(settings, config, operations), encode_stage(settings, config, operations),
        unet_stage(settings, config, operations), decode_stage(settings, config, operations)}) {
    if (settings.stage != "all" && settings.stage != stage.name) {
      all = false;
      continue;
    }
    const Measured measured = measure(stage, dtype, settings.repeats);
    report(settings, stage, measured, name, results);
    sum += per_output_frame(settings, stage, measured.seconds);
  }
  if (all)
    std::printf("%s: %.4f s for a frame of a long clip, at step %d\n", name, sum, settings.step);
}

int bench_stages(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) return 0;
  const ModelConfig config = settings.architecture.config();
  const c10::InferenceMode inference;
  at::set_num_threads(settings.threads);
  Report results(settings.json, {{"program", "bench_stages"}});
  results.print_machine();
  std::printf(
      "%dx%d. effective: operations of the direct computation; achieved: of the products "
      "that the engine does;\n"
      "moved: each layer's inputs, weights and outputs once; peak: of the process in this "
      "stage, weights included\n",
      settings.width, settings.height);
  std::printf("%-8s%-10s%7s%10s%10s%12s%12s%10s%9s%9s\n", "stage", "dtype", "frames", "s",
              "s/frame", "effective", "achieved", "moved", "", "peak");
  std::printf("%45s%12s%12s%10s%9s%9s\n", "", "TFLOP/s", "TFLOP/s", "GB", "GB/s", "GB");
  if (settings.dtype != "bfloat16") run(settings, config, at::kFloat, "float32", results);
  if (settings.dtype != "float32") run(settings, config, at::kBFloat16, "bfloat16", results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  wait_passively(argv);
  return bench_stages(argc, argv);
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "bench_stages: %s\n", error.what());
  return 2;
}
