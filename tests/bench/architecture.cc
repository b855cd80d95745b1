#include "architecture.h"

#include <stdexcept>
#include <string>

namespace normalcrafter::bench {
namespace {

// Group norms have 32 groups.
void require_groups(const char* option, const std::vector<int>& widths) {
  for (const int width : widths)
    if (width % 32 != 0)
      throw std::invalid_argument(std::string(option) + " takes multiples of 32, not " +
                                  std::to_string(width));
}

int heads(int channels, int wanted) {
  return channels / (channels % wanted == 0 ? wanted : 32);
}

}  // namespace

void Architecture::add_widths(CommandLine& line) {
  line.add("--channels", channels, "the UNet's channels, level by level");
  line.add("--vae", vae, "the VAE's channels, level by level");
}

void Architecture::add_depths(CommandLine& line) {
  line.add("--layers", layers, "resnets of a UNet's down block");
  line.add("--transformer-layers", transformer_layers, "blocks of a transformer");
  line.add("--vae-layers", vae_layers, "resnets of an encoder block");
  line.add("--clip-width", clip_width, "CLIP's channels");
  line.add("--clip-layers", clip_layers, "CLIP's layers");
  line.add("--clip-image", clip_image, "side of CLIP's picture");
  line.add("--clip-patch", clip_patch, "side of CLIP's patches");
  line.add("--context", context, "channels of an embedding");
}

ModelConfig Architecture::config() const {
  require_groups("--channels", channels);
  require_groups("--vae", vae);
  require_groups("--clip-width", {clip_width});
  if (clip_image % clip_patch != 0)
    throw std::invalid_argument("--clip-image must be a multiple of --clip-patch");
  ModelConfig config;
  config.clip = {.hidden_size = clip_width,
                 .intermediate_size = 4 * clip_width,
                 .num_hidden_layers = clip_layers,
                 .num_attention_heads = heads(clip_width, 80),
                 .image_size = clip_image,
                 .patch_size = clip_patch,
                 .projection_dim = context};
  config.vae.block_out_channels = vae;
  config.vae.layers_per_block = vae_layers;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const bool attends = i + 1 < channels.size();
    config.unet.levels.push_back({.channels = channels[i],
                                  .attention_heads = heads(channels[i], 64),
                                  .layers = layers,
                                  .transformer_layers = transformer_layers,
                                  .cross_attention_dim = context,
                                  .down_has_attention = attends,
                                  .up_has_attention = attends});
  }
  return config;
}

int Architecture::multiple() const {
  return 1 << (vae.size() - 1 + channels.size() - 1);
}

}  // namespace normalcrafter::bench
