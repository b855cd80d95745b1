// Which files a model consists of: the published directory layout (diffusers' save_pretrained).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace normalcrafter {

/// A component's safetensors files.
struct WeightFiles {
  std::string name;                ///< the file's path, or the index's: how messages call the set
  std::vector<std::string> files;  ///< paths; more than one if sharded
  /// What the index says: tensor -> path of its shard. Empty unless sharded.
  std::map<std::string, std::string> shard_of;
};

struct ComponentFiles {
  std::string config;  ///< path of config.json
  WeightFiles weights;
};

struct ModelFiles {
  ComponentFiles unet;
  ComponentFiles vae;
  ComponentFiles image_encoder;
  std::string scheduler;          ///< path of scheduler_config.json
  std::string feature_extractor;  ///< path of preprocessor_config.json, "" where there is none
  std::string axes;  ///< the convention normalcrafter.json states, "" if it states none
};

/// Finds every component in `directory`, or, when its folder is not there, in `base_directory`. Of
/// the weights' variants the plain one is preferred to `.fp16`, a single file to shards. Reads
/// nothing but shard indexes and normalcrafter.json.
///
/// Throws Error NotFound naming what was looked for, where, and what to do; InvalidModel for a bad
/// index; OpenRead for a directory that cannot be searched.
ModelFiles find_model_files(const std::string& directory, const std::string& base_directory);

}  // namespace normalcrafter
