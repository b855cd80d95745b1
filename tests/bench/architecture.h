// Networks of the published architecture in any width and depth.
#pragma once

#include <vector>

#include "command_line.h"
#include "model/config.h"

namespace normalcrafter::bench {

/// The defaults are the released model's.
struct Architecture {
  std::vector<int> channels = {320, 640, 1280, 1280};  ///< of the UNet's levels, finest first
  int layers = 2;                                      ///< resnets of a down block
  int transformer_layers = 1;
  std::vector<int> vae = {128, 256, 512, 512};
  int vae_layers = 2;
  int clip_width = 1280;
  int clip_layers = 32;
  int clip_image = 224;
  int clip_patch = 14;
  int context = 1024;  ///< channels of a CLIP embedding

  /// --channels and --vae.
  void add_widths(CommandLine& line);
  /// All others.
  void add_depths(CommandLine& line);
  /// Heads of 64 channels (CLIP: 80), or of 32 where that does not divide; attention at all levels
  /// but the coarsest. Throws std::invalid_argument for widths that are no multiples of 32.
  ModelConfig config() const;
  /// What sides of pictures must be multiples of.
  int multiple() const;
};

}  // namespace normalcrafter::bench
