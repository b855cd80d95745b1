// The published JSON configurations, read into the networks' structs.
//
// The specification of each field, its default and its checks is the reference's constructor
// (diffusers 0.39 UNetSpatioTemporalConditionModel, AutoencoderKLTemporalDecoder and
// EulerDiscreteScheduler; transformers 4.57 CLIPVisionConfig). A field that changes the computation
// in a way the engine does not have is an error; fields that the reference ignores are ignored.
//
// Every function throws Error InvalidModel naming file, field and value, and what reading a file
// throws.
#pragma once

#include <string>

#include "networks/configs.h"

namespace normalcrafter {

struct ModelFiles;

/// All of a model's configurations, fitting each other.
struct ModelConfig {
  ClipVisionConfig clip;
  TemporalVaeConfig vae;
  UNetConfig unet;
  EulerConfig euler;
};

UNetConfig read_unet_config(const std::string& file);
TemporalVaeConfig read_vae_config(const std::string& file);
/// `preprocessor_file` may be "": CLIP's published mean and deviation.
ClipVisionConfig read_clip_config(const std::string& file, const std::string& preprocessor_file);
/// The one step that EulerDiscreteScheduler.set_timesteps(1) makes of the configuration: its sigma
/// (carried to 0) and timestep, rounded to float32 as there.
EulerConfig read_scheduler_config(const std::string& file);

/// Reads them all and checks that the networks fit together.
ModelConfig read_model_config(const ModelFiles& files);

}  // namespace normalcrafter
