// Runs the engine on files, for the comparisons with the Python reference:
//   nc_probe clip  --model DIR --input clip.npy --output out.npy [options]
//   nc_probe layer --model DIR --network unet|vae|clip --layer NAME --input in.safetensors
//                  --output out.safetensors [--dtype float32]
// Layers go by their published module paths.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "model/config.h"
#include "model/directory.h"
#include "model/weights.h"
#include "networks/clip_vision_encoder.h"
#include "networks/temporal_vae.h"
#include "networks/unet_spatio_temporal.h"
#include "normalcrafter/engine.h"
#include "tensor_files.h"

namespace {

using namespace normalcrafter;  // NOLINT: a test program

class Arguments {
 public:
  Arguments(int count, char** values, const std::set<std::string>& known) {
    for (int i = 2; i < count; ++i) {
      const std::string name = values[i];
      if (known.count(name) == 0) throw std::runtime_error("unknown option " + name);
      if (name == "--no-renormalize" || name == "--stats") {
        values_[name] = "yes";
      } else if (i + 1 < count) {
        values_[name] = values[++i];
      } else {
        throw std::runtime_error(name + " needs a value");
      }
    }
  }
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  std::string text(const std::string& name, const std::string& fallback) const {
    return has(name) ? values_.at(name) : fallback;
  }
  std::string text(const std::string& name) const {
    if (!has(name)) throw std::runtime_error("missing " + name);
    return values_.at(name);
  }
  void integer(const std::string& name, int& value) const {
    if (has(name)) value = std::stoi(values_.at(name));
  }
  template <typename Enum>
  void choice(const std::string& name, const std::map<std::string, Enum>& names,
              Enum& value) const {
    if (!has(name)) return;
    const auto found = names.find(values_.at(name));
    if (found == names.end()) throw std::runtime_error("bad value of " + name);
    value = found->second;
  }

 private:
  std::map<std::string, std::string> values_;
};

const std::set<std::string> kClipOptions = {
    "--model",       "--base-model",   "--input",        "--output",
    "--device",      "--dtype",        "--window",       "--step",
    "--clip-chunk",  "--encode-chunk", "--decode-chunk", "--max-resolution",
    "--threads",     "--output-size",  "--tail-mode",    "--windows-per-pass",
    "--clip-resize", "--offload-mode", "--format",       "--no-renormalize",
    "--stats",       "--vae-dtype",    "--passes"};
const std::set<std::string> kLayerOptions = {"--model", "--network", "--layer",
                                             "--input", "--output",  "--dtype"};

const std::map<std::string, Dtype> kDtypes = {{"auto", Dtype::Auto},
                                              {"float32", Dtype::Float32},
                                              {"bfloat16", Dtype::BFloat16},
                                              {"float16", Dtype::Float16}};

SessionOptions session_options(const Arguments& arguments) {
  SessionOptions options;
  options.output_format = SampleFormat::F32;
  arguments.integer("--window", options.window_size);
  arguments.integer("--step", options.step_size);
  arguments.integer("--clip-chunk", options.clip_chunk_size);
  arguments.integer("--encode-chunk", options.vae_encode_chunk_size);
  arguments.integer("--decode-chunk", options.vae_decode_chunk_size);
  arguments.integer("--max-resolution", options.max_resolution);
  arguments.integer("--threads", options.threads);
  arguments.integer("--windows-per-pass", options.windows_per_pass);
  arguments.choice("--output-size",
                   {{"original", OutputSize::Original}, {"processed", OutputSize::Processed}},
                   options.output_size);
  arguments.choice("--tail-mode", {{"anchored", TailMode::Anchored}, {"repeat", TailMode::Repeat}},
                   options.tail_mode);
  arguments.choice("--clip-resize",
                   {{"seed", ClipResize::Seed}, {"original", ClipResize::Original}},
                   options.clip_resize);
  arguments.choice("--offload-mode",
                   {{"staged", OffloadMode::Staged},
                    {"resident", OffloadMode::Resident},
                    {"streamed", OffloadMode::Streamed}},
                   options.offload_mode);
  arguments.choice(
      "--format",
      {{"u8", SampleFormat::U8}, {"u16", SampleFormat::U16}, {"f32", SampleFormat::F32}},
      options.output_format);
  options.renormalize = !arguments.has("--no-renormalize");
  options.offload_after = !arguments.has("--passes");  // the passes follow each other
  return options;
}

at::ScalarType sample_type(SampleFormat format) {
  if (format == SampleFormat::U8) return at::kByte;
  return format == SampleFormat::U16 ? at::kUInt16 : at::kFloat;
}

at::Tensor copied(const NormalView& view) {
  at::Tensor frame = at::empty({view.size.height, view.size.width, 3}, sample_type(view.format));
  auto* to = static_cast<char*>(frame.mutable_data_ptr());
  const std::size_t row = frame.nbytes() / view.size.height;
  for (int y = 0; y < view.size.height; ++y)
    std::memcpy(to + y * row, static_cast<const char*>(view.data) + y * view.row_stride, row);
  return frame;
}

void print_stats(const SessionStats& stats, const DeviceStats& device, double seconds) {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  for (int i = 0; i < kStageCount; ++i)
    std::printf("%-7s %8.2f s\n", stage_name(static_cast<Stage>(i)), stats.stage_seconds[i]);
  std::printf("total   %8.2f s\npeak    %8.2f GB\n", seconds,
              static_cast<double>(usage.ru_maxrss) * 1024 / 1e9);
  if (device.memory.peak == 0) return;
  std::printf("device-peak     %8.3f GB\ndevice-reserved %8.3f GB\n",
              static_cast<double>(device.memory.peak) / 1e9,
              static_cast<double>(device.memory.reserved) / 1e9);
  for (int i = 0; i < kStageCount; ++i)
    std::printf("upload-%-7s %8.3f GB %8.3f s\n", stage_name(static_cast<Stage>(i)),
                static_cast<double>(device.upload_bytes[i]) / 1e9, device.upload_seconds[i]);
}

void push_all(Session& session, FrameView view, const at::Tensor& clip) {
  for (int64_t i = 0; i < clip.size(0); ++i) {
    view.data = static_cast<const char*>(clip.const_data_ptr()) +
                i * clip.stride(0) * static_cast<int64_t>(clip.element_size());
    session.push(view);
  }
  session.finish();
}

int run_clip(const Arguments& arguments) {
  ModelOptions model_options;
  model_options.directory = arguments.text("--model");
  model_options.base_directory = arguments.text("--base-model", "");
  model_options.device = arguments.text("--device", "cpu");
  arguments.choice("--dtype", kDtypes, model_options.dtype);
  arguments.choice("--vae-dtype", kDtypes, model_options.vae_dtype);
  const SessionOptions options = session_options(arguments);
  const at::Tensor clip = test::read_npy(arguments.text("--input"));

  std::vector<at::Tensor> outputs;
  SessionCallbacks callbacks;
  callbacks.frame = [&](const NormalView& view) { outputs.push_back(copied(view)); };
  callbacks.log = [](LogLevel, const std::string& text) {
    std::fprintf(stderr, "%s\n", text.c_str());
  };
  Engine* engine = normalcrafter_engine(kEngineAbi);
  auto start = std::chrono::steady_clock::now();
  const auto model = engine->open_model(model_options, callbacks.log);
  const auto session = engine->create_session(model, options, callbacks);
  session->prepare();
  FrameView view;
  view.size = {static_cast<int>(clip.size(2)), static_cast<int>(clip.size(1))};
  view.format = clip.scalar_type() == at::kByte ? SampleFormat::U8 : SampleFormat::U16;
  view.row_stride = clip.stride(1) * static_cast<std::ptrdiff_t>(clip.element_size());
  // Of several passes the last one counts: the first has what happens once, as loading kernels.
  int passes = 1;
  arguments.integer("--passes", passes);
  SessionStats before;
  for (int pass = 1; pass < passes; ++pass) {
    push_all(*session, view, clip);
    before = session->stats();
    outputs.clear();
    start = std::chrono::steady_clock::now();
  }
  push_all(*session, view, clip);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (arguments.has("--stats")) {
    SessionStats stats = session->stats();
    for (int i = 0; i < kStageCount; ++i) stats.stage_seconds[i] -= before.stage_seconds[i];
    print_stats(stats, model->device_stats(), elapsed.count());
  }
  // Stacked as bytes: not every ATen kernel knows uint16.
  std::vector<at::Tensor> bytes;
  for (const auto& frame : outputs) bytes.push_back(frame.view(at::kByte));
  test::write_npy(arguments.text("--output"),
                  at::stack(bytes).view(sample_type(options.output_format)));
  return 0;
}

// --- single layers -----------------------------------------------------------------------------

using Tensors = std::map<std::string, at::Tensor>;

struct Path {
  std::string head;  // "down_blocks"
  int index = 0;     // of the block
  std::string part;  // "resnets", "attentions" or ""
  int item = 0;
};

// "down_blocks.1.resnets.0" -> its pieces.
Path parse(const std::string& name) {
  Path path;
  std::vector<std::string> words;
  std::string word;
  for (const char c : name + ".") {
    if (c == '.') {
      words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  std::size_t i = 0;
  path.head = words[i++];
  if (i < words.size() && std::isdigit(words[i][0])) path.index = std::stoi(words[i++]);
  if (i < words.size()) path.part = words[i++];
  if (i < words.size()) path.item = std::stoi(words[i]);
  return path;
}

class LayerProbe {
 public:
  LayerProbe(const ModelConfig& config, WeightSource& source, const Tensors& input)
      : config_(config), weights_(source), input_(input), checkpoint_(never_) {
    hidden_ = input.at("hidden").to(source.dtype());
    if (input.count("context")) context_ = input.at("context").to(source.dtype());
  }

  Tensors unet(const std::string& name) const {
    const Path path = parse(name);
    const auto time = unet_time_embedding(weights_, config_.unet, config_.euler.timestep);
    const Weights scope = scoped(name);
    if (path.head == "conv_in") {
      const auto& first = config_.unet.levels.front();
      return spatial(Conv2d(scope, {config_.unet.in_channels, first.channels}));
    }
    if (path.part == "resnets") return spatial(resnet(scope, path, time));
    if (path.part == "downsamplers")
      return spatial(Downsample(scope, config_.unet.levels[path.index].channels, false));
    if (path.part == "attentions") return attention(scope, path);
    if (path.head == "mid_block") {
      const UNetMidBlock block(scope, config_.unet, time);
      return {{"hidden", out(block(as_nhwc(hidden_), context_, checkpoint_))}};
    }
    if (path.head == "down_blocks") return down_block(scope, path.index, time);
    if (path.head == "up_blocks") return up_block(scope, path.index, time);
    throw std::runtime_error("unknown unet layer " + name);
  }

  Tensors vae(const std::string& name) const {
    const TemporalVaeConfig& vae = config_.vae;
    const auto& channels = vae.block_out_channels;
    const int levels = static_cast<int>(channels.size());
    if (name == "encoder")
      return {{"hidden", VaeEncoder(weights_, vae).moments(hidden_, checkpoint_)}};
    if (name == "decoder") return {{"hidden", VaeDecoder(weights_, vae)(hidden_, checkpoint_)}};
    const bool encoder = name.rfind("encoder.", 0) == 0;
    const Path path = parse(name.substr(8));
    const Weights scope = scoped(name);
    const int i = path.index;
    if (encoder && path.head == "down_blocks") {
      return checked(VaeDownBlock(scope, channels[std::max(i - 1, 0)], channels[i],
                                  vae.layers_per_block, i + 1 < levels));
    }
    if (encoder && path.head == "mid_block") return checked(VaeMidBlock(scope, channels.back()));
    if (path.head == "mid_block")
      return checked(VaeDecoderMidBlock(scope, channels.back(), vae.layers_per_block));
    if (path.head == "up_blocks") {
      const int level = levels - 1 - i;
      return checked(VaeUpBlock(scope, channels[std::min(level + 1, levels - 1)], channels[level],
                                vae.layers_per_block + 1, level > 0));
    }
    throw std::runtime_error("unknown vae layer " + name);
  }

  Tensors clip(const std::string& name) const {
    if (name == "vision_model")
      return {{"hidden", ClipVisionEncoder(weights_, config_.clip)(hidden_, checkpoint_)}};
    return {{"hidden", ClipEncoderLayer(scoped(name), config_.clip)(hidden_)}};
  }

 private:
  Weights scoped(const std::string& name) const { return weights_ / name; }
  static at::Tensor out(const at::Tensor& nhwc) { return as_nchw(nhwc).contiguous(); }

  template <typename Layer>
  Tensors spatial(const Layer& layer) const {
    return {{"hidden", out(layer(as_nhwc(hidden_)))}};
  }
  template <typename Block>
  Tensors checked(const Block& block) const {
    return {{"hidden", out(block(as_nhwc(hidden_), checkpoint_))}};
  }

  SpatioTemporalResnet resnet(const Weights& scope, const Path& path,
                              const TimeEmbedding& time) const {
    const auto& levels = config_.unet.levels;
    const int last = static_cast<int>(levels.size()) - 1;
    const int level = path.head == "down_blocks" ? path.index
                      : path.head == "mid_block" ? last
                                                 : last - path.index;
    const bool plain = path.head == "mid_block" ||
                       (path.head == "down_blocks" && !levels[level].down_has_attention);
    const double eps = plain ? 1e-5 : 1e-6;
    return SpatioTemporalResnet(
        scope,
        {static_cast<int>(hidden_.size(1)), levels[level].channels, eps, eps, BlendRole::Unet},
        time);
  }

  Tensors attention(const Weights& scope, const Path& path) const {
    const auto& levels = config_.unet.levels;
    const int last = static_cast<int>(levels.size()) - 1;
    const auto& level = levels[path.head == "down_blocks" ? path.index
                               : path.head == "mid_block" ? last
                                                          : last - path.index];
    const SpatioTemporalTransformer layer(
        scope, {level.channels, level.attention_heads, level.transformer_layers,
                level.cross_attention_dim});
    return {{"hidden", out(layer(as_nhwc(hidden_), context_, checkpoint_))}};
  }

  Tensors down_block(const Weights& scope, int index, const TimeEmbedding& time) const {
    const UNetDownBlock block(scope, config_.unet, index, time);
    std::vector<at::Tensor> skips;
    Tensors result = {{"hidden", out(block(as_nhwc(hidden_), context_, skips, checkpoint_))}};
    for (std::size_t i = 0; i < skips.size(); ++i)
      result["skip." + std::to_string(i)] = out(skips[i]);
    return result;
  }

  Tensors up_block(const Weights& scope, int index, const TimeEmbedding& time) const {
    const UNetUpBlock block(scope, config_.unet, index, time);
    std::vector<at::Tensor> skips;
    for (int i = 0; input_.count("skip." + std::to_string(i)); ++i)
      skips.push_back(as_nhwc(input_.at("skip." + std::to_string(i)).to(hidden_.scalar_type())));
    return {{"hidden", out(block(as_nhwc(hidden_), context_, skips, checkpoint_))}};
  }

  const ModelConfig& config_;
  Weights weights_;
  const Tensors& input_;
  at::Tensor hidden_;
  at::Tensor context_;
  const std::atomic<bool> never_ = false;
  Checkpoint checkpoint_;
};

int run_layer(const Arguments& arguments) {
  const c10::InferenceMode inference;
  const std::string network = arguments.text("--network");
  const ModelFiles files = find_model_files(arguments.text("--model"), "");
  const ModelConfig config = read_model_config(files);
  const auto& component = network == "unet"  ? files.unet
                          : network == "vae" ? files.vae
                                             : files.image_encoder;
  const std::atomic<bool> never = false;
  const at::ScalarType dtype =
      arguments.text("--dtype", "float32") == "bfloat16" ? at::kBFloat16 : at::kFloat;
  SafetensorsWeights weights(std::make_shared<ComponentTensors>(component.weights), dtype, at::kCPU,
                             Checkpoint(never));
  const Tensors input = test::read_tensors(arguments.text("--input"));
  const LayerProbe probe(config, weights, input);
  const std::string layer = arguments.text("--layer");
  test::write_tensors(arguments.text("--output"), network == "unet"  ? probe.unet(layer)
                                                  : network == "vae" ? probe.vae(layer)
                                                                     : probe.clip(layer));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "clip") return run_clip({argc, argv, kClipOptions});
  if (command == "layer") return run_layer({argc, argv, kLayerOptions});
  std::fprintf(stderr, "usage: nc_probe clip|layer ... (see nc_probe.cc)\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "nc_probe: %s\n", error.what());
  return 1;
}
