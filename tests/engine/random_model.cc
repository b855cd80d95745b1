#include "random_model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "networks/clip_vision_encoder.h"
#include "networks/temporal_vae.h"
#include "networks/unet_spatio_temporal.h"
#include "tensor_files.h"

namespace normalcrafter::test {
namespace {

using nlohmann::json;

bool ends_with(const std::string& text, const char* end) {
  return text.ends_with(end);
}

void write_json(const std::string& file, const json& content) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file) << content.dump(1);
}

json unet_json(const UNetConfig& config) {
  json down = json::array();
  json up = json::array();
  json channels = json::array();
  json heads = json::array();
  json layers = json::array();
  for (const auto& level : config.levels) {
    down.push_back(level.down_has_attention ? "CrossAttnDownBlockSpatioTemporal"
                                            : "DownBlockSpatioTemporal");
    up.insert(up.begin(),
              level.up_has_attention ? "CrossAttnUpBlockSpatioTemporal" : "UpBlockSpatioTemporal");
    channels.push_back(level.channels);
    heads.push_back(level.attention_heads);
    layers.push_back(level.layers);
  }
  return {{"_class_name", "UNetSpatioTemporalConditionModel"},
          {"in_channels", config.in_channels},
          {"out_channels", config.out_channels},
          {"down_block_types", down},
          {"up_block_types", up},
          {"block_out_channels", channels},
          {"num_attention_heads", heads},
          {"layers_per_block", layers},
          {"cross_attention_dim", config.levels.front().cross_attention_dim},
          {"transformer_layers_per_block", config.levels.front().transformer_layers},
          {"addition_time_embed_dim", config.addition_time_embed_dim},
          {"projection_class_embeddings_input_dim", config.projection_class_embeddings_input_dim}};
}

json vae_json(const TemporalVaeConfig& config) {
  return {{"_class_name", "AutoencoderKLTemporalDecoder"},
          {"in_channels", config.in_channels},
          {"out_channels", config.out_channels},
          {"latent_channels", config.latent_channels},
          {"block_out_channels", config.block_out_channels},
          {"down_block_types",
           std::vector<std::string>(config.block_out_channels.size(), "DownEncoderBlock2D")},
          {"layers_per_block", config.layers_per_block},
          {"scaling_factor", config.scaling_factor},
          {"force_upcast", config.force_upcast}};
}

json clip_json(const ClipVisionConfig& config) {
  return {{"architectures", {"CLIPVisionModelWithProjection"}},
          {"model_type", "clip_vision_model"},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"num_hidden_layers", config.num_hidden_layers},
          {"num_attention_heads", config.num_attention_heads},
          {"image_size", config.image_size},
          {"patch_size", config.patch_size},
          {"projection_dim", config.projection_dim},
          {"layer_norm_eps", config.layer_norm_eps},
          {"hidden_act", config.hidden_act}};
}

json scheduler_json(double sigma_max) {
  return {{"_class_name", "EulerDiscreteScheduler"},
          {"beta_end", 0.012},
          {"beta_schedule", "scaled_linear"},
          {"beta_start", 0.00085},
          {"interpolation_type", "linear"},
          {"num_train_timesteps", 1000},
          {"prediction_type", "v_prediction"},
          {"sigma_max", sigma_max},
          {"sigma_min", 0.002},
          {"steps_offset", 1},
          {"timestep_spacing", "leading"},
          {"timestep_type", "continuous"},
          {"use_karras_sigmas", true}};
}

}  // namespace

at::Tensor RandomWeights::get(const std::string& name, at::IntArrayRef shape,
                              at::ScalarType dtype) {
  auto& tensor = tensors_[name];
  if (!tensor.defined()) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(std::hash<std::string>()(name));
    tensor = at::randn(shape, generator, at::TensorOptions(at::kFloat));
    if (shape.size() > 1) {
      tensor.mul_(1 / std::sqrt(static_cast<double>(tensor[0].numel())));
    } else if (ends_with(name, "weight")) {
      tensor.mul_(0.2).add_(1);
    } else if (ends_with(name, "bias")) {
      tensor.mul_(0.1);
    }
  }
  return tensor.to(dtype, /*non_blocking=*/false, /*copy=*/true);
}

ModelConfig tiny_config() {
  ModelConfig config;
  config.clip = {.hidden_size = 32,
                 .intermediate_size = 48,
                 .num_hidden_layers = 1,
                 .num_attention_heads = 2,
                 .image_size = 32,
                 .patch_size = 16,
                 .projection_dim = 16};
  config.vae.block_out_channels = {32, 32};
  config.unet.levels = {{.channels = 32,
                         .attention_heads = 2,
                         .layers = 1,
                         .transformer_layers = 1,
                         .cross_attention_dim = 16,
                         .down_has_attention = true,
                         .up_has_attention = true},
                        {.channels = 32,
                         .attention_heads = 1,
                         .layers = 1,
                         .transformer_layers = 1,
                         .cross_attention_dim = 16}};
  config.unet.addition_time_embed_dim = 8;
  config.unet.projection_class_embeddings_input_dim = 24;
  config.euler = {2.0, 0.25 * std::log(2.0)};
  return config;
}

void write_model(const std::string& directory, const ModelConfig& config) {
  write_json(directory + "/unet/config.json", unet_json(config.unet));
  write_json(directory + "/vae/config.json", vae_json(config.vae));
  write_json(directory + "/image_encoder/config.json", clip_json(config.clip));
  write_json(directory + "/scheduler/scheduler_config.json", scheduler_json(config.euler.sigma));
  RandomWeights unet;
  RandomWeights vae;
  RandomWeights clip;
  UNetSpatioTemporal(Weights(unet), config.unet, config.euler.timestep);
  VaeEncoder(Weights(vae), config.vae);
  VaeDecoder(Weights(vae), config.vae);
  ClipVisionEncoder(Weights(clip), config.clip);
  write_tensors(directory + "/unet/diffusion_pytorch_model.safetensors", unet.tensors());
  write_tensors(directory + "/vae/diffusion_pytorch_model.safetensors", vae.tensors());
  write_tensors(directory + "/image_encoder/model.safetensors", clip.tensors());
}

}  // namespace normalcrafter::test
