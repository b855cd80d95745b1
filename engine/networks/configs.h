// The networks' configurations: what the published JSON files say, checked and complete.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace normalcrafter {

/// image_encoder/config.json (CLIPVisionModelWithProjection) and
/// feature_extractor/preprocessor_config.json.
struct ClipVisionConfig {
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int image_size = 0;
  int patch_size = 0;
  int projection_dim = 0;
  double layer_norm_eps = 1e-5;
  std::string hidden_act = "gelu";  ///< "gelu" (exact erf) or "quick_gelu"
  std::array<float, 3> image_mean = {0.48145466F, 0.4578275F, 0.40821073F};
  std::array<float, 3> image_std = {0.26862954F, 0.26130258F, 0.27577711F};
};

/// vae/config.json (AutoencoderKLTemporalDecoder).
struct TemporalVaeConfig {
  int in_channels = 3;
  int out_channels = 3;
  int latent_channels = 4;
  std::vector<int> block_out_channels;
  int layers_per_block = 1;
  double scaling_factor = 0.18215;
  bool force_upcast = true;
  /// Pixels per latent, each way.
  int spatial_factor() const { return 1 << (static_cast<int>(block_out_channels.size()) - 1); }
};

/// unet/config.json (UNetSpatioTemporalConditionModel). One entry a level, from the finest down.
struct UNetConfig {
  struct Level {
    int channels = 0;
    int attention_heads = 0;
    int layers = 0;              ///< resnets a down block; an up block has one more
    int transformer_layers = 1;  ///< basic blocks a transformer
    int cross_attention_dim = 0;
    bool down_has_attention = false;  ///< CrossAttnDownBlockSpatioTemporal
    bool up_has_attention =
        false;  ///< the up block of the same level (the published list reversed)
  };
  int in_channels = 8;
  int out_channels = 4;
  std::vector<Level> levels;
  int addition_time_embed_dim = 256;
  int projection_class_embeddings_input_dim = 768;
};

/// scheduler/scheduler_config.json (EulerDiscreteScheduler, one step).
struct EulerConfig {
  double sigma = 700.0;   ///< of the one step, as the scheduler derives it
  double timestep = 0.0;  ///< what the UNet's time embedding gets
};

}  // namespace normalcrafter
