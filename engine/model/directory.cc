#include "model/directory.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "model/in_quotes.h"
#include "model/json_file.h"
#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

namespace fs = std::filesystem;

/// Whether there is an entry of that name, be it a dangling link: opening it then says so, which
/// tells more than "not found".
bool is_there(const fs::path& path) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (error) throw Error(ErrorCode::OpenRead, path.string() + ": " + error.message());
  return true;
}

void check_directory(const std::string& directory, const std::string& option) {
  std::error_code error;
  const auto status = fs::status(directory, error);
  if (status.type() == fs::file_type::not_found) {
    throw Error(ErrorCode::NotFound, option + " " + in_quotes(directory) + " does not exist");
  }
  if (error) throw Error(ErrorCode::OpenRead, directory + ": " + error.message());
  if (status.type() != fs::file_type::directory) {
    throw Error(ErrorCode::NotFound,
                option + " " + in_quotes(directory) +
                    " is not a directory; give the one that holds unet/, vae/ and the others");
  }
}

/// The roots in the order in which they are searched.
struct Roots {
  std::vector<fs::path> directories;

  /// The component's folder in the first root that has one, "" if none has.
  fs::path find(const std::string& component) const {
    for (const auto& root : directories) {
      if (is_there(root / component)) return root / component;
    }
    return {};
  }

  fs::path require(const std::string& component) const {
    const fs::path found = find(component);
    if (!found.empty()) return found;
    std::string where = in_quotes(directories.front().string());
    if (directories.size() > 1) where += " nor in " + in_quotes(directories.back().string());
    throw Error(ErrorCode::NotFound,
                "no " + component + "/ in " + where +
                    ": copy it there, or set the base model to a directory that has it (the "
                    "image_encoder, scheduler and feature_extractor of Stable Video Diffusion "
                    "img2vid-xt fit the released weights)");
  }
};

fs::path require_file(const fs::path& folder, const std::string& name) {
  if (is_there(folder / name)) return folder / name;
  throw Error(ErrorCode::NotFound, "no " + name + " in " + in_quotes(folder.string()) +
                                       ": the component is incomplete; fetch it again");
}

/// A shard's file name must be a plain one: an index may not point out of its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

WeightFiles read_shard_index(const fs::path& index) {
  const std::string path = index.string();
  const auto json = read_json_object(path);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object() || map->empty()) {
    throw Error(ErrorCode::InvalidModel, path + ": weight_map is missing, empty or not an object");
  }
  WeightFiles weights{path, {}, {}};
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_name(shard.get_ref<const std::string&>())) {
      throw Error(ErrorCode::InvalidModel, path + ": weight_map: tensor " + in_quotes(tensor) +
                                               " is not placed in a plain file name but in " +
                                               shard.dump(-1, ' ', true));
    }
    const auto& name = shard.get_ref<const std::string&>();
    names.insert(name);
    weights.shard_of[tensor] = (index.parent_path() / name).string();
  }
  for (const auto& name : names) {
    const fs::path shard = index.parent_path() / name;
    if (!is_there(shard)) {
      throw Error(ErrorCode::NotFound, path + ": its shard " + in_quotes(name) +
                                           " is not there; fetch it into the same folder");
    }
    weights.files.push_back(shard.string());
  }
  return weights;
}

/// Files that hold weights in a form that is not read, because unpickling runs code.
std::string pickled_weights(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto extension = entry.path().extension();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt") {
      return entry.path().filename().string();
    }
  }
  return {};
}

/// `stem`: the file name's published beginning.
WeightFiles find_weights(const fs::path& folder, const std::string& stem) {
  const std::pair<std::string, bool> candidates[] = {
      {stem + ".safetensors", false},
      {stem + ".safetensors.index.json", true},
      {stem + ".fp16.safetensors", false},
      {stem + ".safetensors.index.fp16.json", true},  // diffusers and transformers write this one
      {stem + ".fp16.safetensors.index.json", true},  // older diffusers wrote this one
  };
  for (const auto& [name, is_index] : candidates) {
    const fs::path path = folder / name;
    if (!is_there(path)) continue;
    if (is_index) return read_shard_index(path);
    return {path.string(), {path.string()}, {}};
  }
  const std::string pickled = pickled_weights(folder);
  throw Error(ErrorCode::NotFound,
              "no " + stem + ".safetensors (nor .fp16.safetensors, nor a shard index) in " +
                  in_quotes(folder.string()) +
                  (pickled.empty() ? ": fetch the component's weights into it"
                                   : "; there is " + in_quotes(pickled) +
                                         ", but only safetensors are read: convert it"));
}

ComponentFiles find_component(const Roots& roots, const std::string& component,
                              const std::string& stem) {
  const fs::path folder = roots.require(component);
  check_directory(folder.string(), "component");
  return {require_file(folder, "config.json").string(), find_weights(folder, stem)};
}

/// The vectors' convention that the model was trained with, "" where the directory states none.
std::string read_axes(const fs::path& directory) {
  const fs::path path = directory / "normalcrafter.json";
  if (!is_there(path)) return {};
  const auto json = read_json_object(path.string());
  const auto axes = json.find("axes");
  if (axes == json.end()) return {};
  if (!axes->is_string()) {
    throw Error(ErrorCode::InvalidModel,
                path.string() + ": axes is " + axes->dump(-1, ' ', true) + ", a text is expected");
  }
  return axes->get<std::string>();
}

}  // namespace

ModelFiles find_model_files(const std::string& directory, const std::string& base_directory) {
  Roots roots;
  check_directory(directory, "model directory");
  roots.directories.emplace_back(directory);
  if (!base_directory.empty()) {
    check_directory(base_directory, "base model directory");
    roots.directories.emplace_back(base_directory);
  }
  ModelFiles files;
  files.unet = find_component(roots, "unet", "diffusion_pytorch_model");
  files.vae = find_component(roots, "vae", "diffusion_pytorch_model");
  files.image_encoder = find_component(roots, "image_encoder", "model");
  files.scheduler = require_file(roots.require("scheduler"), "scheduler_config.json").string();
  const fs::path extractor = roots.find("feature_extractor");
  if (!extractor.empty()) {
    files.feature_extractor = require_file(extractor, "preprocessor_config.json").string();
  }
  files.axes = read_axes(directory);
  return files;
}

}  // namespace normalcrafter
