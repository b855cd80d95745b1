#include "model/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <string_view>
#include <vector>

#include "model/directory.h"
#include "model/json_file.h"
#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

using nlohmann::json;

/// No published model comes near; larger is a broken file, and products of these fit 64 bits.
constexpr int kMostChannels = 1 << 16;
constexpr int kMostLayers = 1000;
constexpr int kMostLevels = 16;
/// Of every GroupNorm in UNet and VAE; the reference has no field for it.
constexpr int kNormGroups = 32;

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const auto& name : names) result += (result.empty() ? "" : " or ") + name;
  return result;
}

/// A configuration file's fields. Each getter gives the reference's default when the field is not
/// there and throws Error InvalidModel, naming file, field and value, when it is not what it must
/// be.
class Fields {
 public:
  explicit Fields(const std::string& file) : file_(file), json_(read_json_object(file)) {}

  [[noreturn]] void reject(const std::string& field, const std::string& expected) const {
    const json* value = find(field);
    const std::string text =
        value ? value->dump(-1, ' ', true, json::error_handler_t::replace) : "not there";
    throw Error(ErrorCode::InvalidModel,
                file_ + ": " + field + " is " +
                    (text.size() > 200 ? text.substr(0, 200) + "..." : text) + ", but " + expected);
  }

  const json* find(const std::string& field) const {
    const auto found = json_.find(field);
    return found == json_.end() ? nullptr : &*found;
  }

  int integer(const std::string& field, int absent, int least, int most) const {
    const json* value = find(field);
    return value ? as_integer(field, *value, least, most) : absent;
  }

  double number(const std::string& field, double absent, double least, double most) const {
    const json* value = find(field);
    return value ? as_number(field, *value, least, most) : absent;
  }

  /// A field that may be null, for "derive it".
  std::optional<double> optional_number(const std::string& field, double least, double most) const {
    const json* value = find(field);
    if (!value || value->is_null()) return std::nullopt;
    return as_number(field, *value, least, most);
  }

  bool flag(const std::string& field, bool absent) const {
    const json* value = find(field);
    if (!value || value->is_null()) return absent;
    if (!value->is_boolean()) reject(field, "true or false is expected");
    return value->get<bool>();
  }

  /// One of `supported`.
  std::string choice(const std::string& field, const std::string& absent,
                     const std::vector<std::string>& supported) const {
    const json* value = find(field);
    if (value && !value->is_string()) reject(field, "a text is expected");
    const std::string text = value ? value->get<std::string>() : absent;
    if (std::find(supported.begin(), supported.end(), text) == supported.end()) {
      const std::string missing = value ? "" : "its default is " + absent + " and ";
      reject(field, missing + "only " + joined(supported) + " is supported");
    }
    return text;
  }

  /// A list of integers.
  std::vector<int> integers(const std::string& field, std::vector<int> absent, int least,
                            int most) const {
    const json* value = find(field);
    if (!value) return absent;
    if (!value->is_array() || value->empty()) reject(field, "a list of integers is expected");
    std::vector<int> result;
    for (const auto& item : *value) result.push_back(as_integer(field, item, least, most));
    return result;
  }

  /// One integer for all levels, or a list of one a level.
  std::vector<int> integers_by_level(const std::string& field, std::vector<int> absent,
                                     std::size_t levels, int least, int most) const {
    const json* value = find(field);
    if (value && !value->is_array()) {
      return std::vector<int>(levels, as_integer(field, *value, least, most));
    }
    auto result = integers(field, std::move(absent), least, most);
    if (result.size() != levels) reject_count(field, levels);
    return result;
  }

  /// A list of one of `supported` a level.
  std::vector<std::string> choices_by_level(const std::string& field,
                                            std::vector<std::string> absent,
                                            const std::vector<std::string>& supported,
                                            std::size_t levels) const {
    const json* value = find(field);
    std::vector<std::string> result = std::move(absent);
    if (value) {
      if (!value->is_array()) reject(field, "a list of texts is expected");
      result.clear();
      for (const auto& item : *value) {
        if (!item.is_string() || std::find(supported.begin(), supported.end(),
                                           item.get_ref<const std::string&>()) == supported.end()) {
          reject(field, "only " + joined(supported) + " is supported");
        }
        result.push_back(item);
      }
    }
    if (result.size() != levels) reject_count(field, levels);
    return result;
  }

  /// Three numbers, or one for all three.
  std::array<float, 3> triple(const std::string& field, std::array<float, 3> absent, double least,
                              double most) const {
    const json* value = find(field);
    if (!value || value->is_null()) return absent;
    std::array<float, 3> result = {};
    if (value->is_array() && value->size() != 3) reject(field, "three numbers are expected");
    for (std::size_t i = 0; i < 3; ++i) {
      const json& item = value->is_array() ? (*value)[i] : *value;
      result[i] = static_cast<float>(as_number(field, item, least, most));
    }
    return result;
  }

 private:
  [[noreturn]] void reject_count(const std::string& field, std::size_t levels) const {
    reject(field, "block_out_channels makes " + std::to_string(levels) +
                      " levels, and as many entries are expected");
  }

  int as_integer(const std::string& field, const json& value, int least, int most) const {
    const std::string expected =
        "integers from " + std::to_string(least) + " to " + std::to_string(most) + " are expected";
    if (!value.is_number_integer()) reject(field, expected);
    // Above int64 an unsigned number would turn negative when read as one.
    const bool huge =
        value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    if (huge || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
      reject(field, expected);
    }
    return value.get<int>();
  }

  double as_number(const std::string& field, const json& value, double least, double most) const {
    const bool fits =
        value.is_number() && value.get<double>() >= least && value.get<double>() <= most;
    if (!fits) {
      reject(field,
             "numbers from " + json(least).dump() + " to " + json(most).dump() + " are expected");
    }
    return value.get<double>();
  }

  std::string file_;
  json json_;
};

std::vector<int> read_block_channels(const Fields& fields, std::vector<int> absent) {
  auto channels = fields.integers("block_out_channels", std::move(absent), 1, kMostChannels);
  if (channels.size() > kMostLevels) {
    fields.reject("block_out_channels", "at most 16 levels are supported");
  }
  for (const int count : channels) {
    if (count % kNormGroups != 0) {
      fields.reject("block_out_channels", "multiples of 32 are needed, the group norms' groups");
    }
  }
  return channels;
}

/// Whether a level has transformers; the deepest has them in the mid block.
bool attends(const UNetConfig& config, std::size_t level) {
  return config.levels[level].down_has_attention || config.levels[level].up_has_attention ||
         level + 1 == config.levels.size();
}

void check_heads(const Fields& fields, const UNetConfig& config) {
  for (std::size_t i = 0; i < config.levels.size(); ++i) {
    const auto& level = config.levels[i];
    if (attends(config, i) && level.channels % level.attention_heads != 0) {
      fields.reject("num_attention_heads", "level " + std::to_string(i) + " has " +
                                               std::to_string(level.channels) +
                                               " channels, which its heads do not divide");
    }
  }
}

// The scheduler's tables, in the float32 steps of EulerDiscreteScheduler.__init__.

std::vector<float> linear_betas(float first, float last, int count) {
  // torch.linspace goes from both ends towards the middle.
  std::vector<float> betas(static_cast<std::size_t>(count), first);
  const float step = count > 1 ? (last - first) / static_cast<float>(count - 1) : 0.0F;
  for (int i = 0; count > 1 && i < count; ++i) {
    betas[static_cast<std::size_t>(i)] = i < count / 2
                                             ? first + step * static_cast<float>(i)
                                             : last - step * static_cast<float>(count - i - 1);
  }
  return betas;
}

std::vector<float> cosine_betas(int count) {
  const auto alpha_bar = [](double t) {
    const double cosine = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2);
    return cosine * cosine;
  };
  std::vector<float> betas;
  for (int i = 0; i < count; ++i) {
    const double ratio = alpha_bar((i + 1.0) / count) / alpha_bar(static_cast<double>(i) / count);
    betas.push_back(static_cast<float>(std::min(1 - ratio, 0.999)));
  }
  return betas;
}

std::vector<float> read_betas(const Fields& fields) {
  const int steps = fields.integer("num_train_timesteps", 1000, 1, 1'000'000);
  const double start = fields.number("beta_start", 0.0001, 0, 1);
  const double end = fields.number("beta_end", 0.02, 0, 1);
  const std::string schedule =
      fields.choice("beta_schedule", "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"});
  if (schedule == "squaredcos_cap_v2") return cosine_betas(steps);
  if (schedule == "linear") {
    return linear_betas(static_cast<float>(start), static_cast<float>(end), steps);
  }
  auto betas =
      linear_betas(static_cast<float>(std::sqrt(start)), static_cast<float>(std::sqrt(end)), steps);
  for (float& beta : betas) beta *= beta;
  return betas;
}

/// The noise level of a training step.
double training_sigma(const std::vector<float>& betas, std::size_t step) {
  double product = 1;  // torch.cumprod accumulates float32 in float64 on the CPU
  for (std::size_t i = 0; i <= step; ++i) product *= static_cast<double>(1.0F - betas[i]);
  const auto alphas_cumprod = static_cast<float>(product);
  return std::sqrt((1.0F - alphas_cumprod) / alphas_cumprod);
}

/// The training step that set_timesteps(1) takes for its only one.
std::size_t only_timestep(const Fields& fields, std::size_t training_steps) {
  const std::string spacing =
      fields.choice("timestep_spacing", "linspace", {"linspace", "leading", "trailing"});
  const int offset = fields.integer("steps_offset", 0, 0, 1'000'000);
  // numpy.linspace(0, n - 1, 1) is [0], as is arange(1); arange(n, 0, -n) - 1 is [n - 1].
  if (spacing == "linspace") return 0;
  if (spacing == "trailing") return training_steps - 1;
  return std::min(static_cast<std::size_t>(offset), training_steps - 1);
}

void refuse_unsupported_scheduler(const Fields& fields) {
  fields.choice("_class_name", "EulerDiscreteScheduler", {"EulerDiscreteScheduler"});
  fields.choice("prediction_type", "epsilon", {"v_prediction"});
  fields.choice("timestep_type", "discrete", {"continuous"});
  fields.choice("interpolation_type", "linear", {"linear"});
  // "sigma_min" would not carry the step to sigma 0.
  fields.choice("final_sigmas_type", "zero", {"zero"});
  for (const auto* field : {"use_beta_sigmas", "rescale_betas_zero_snr"}) {
    if (fields.flag(field, false)) fields.reject(field, "only false is supported");
  }
  const json* trained = fields.find("trained_betas");
  if (trained && !trained->is_null()) fields.reject("trained_betas", "only null is supported");
}

void check_fit(const ModelConfig& config, const ModelFiles& files) {
  const auto require = [](bool fits, const std::string& file, const std::string& reason) {
    if (!fits) throw Error(ErrorCode::InvalidModel, file + ": " + reason);
  };
  const auto number = [](int value) { return std::to_string(value); };
  const int latent = config.vae.latent_channels;
  require(config.unet.in_channels == 2 * latent, files.unet.config,
          "in_channels is " + number(config.unet.in_channels) + ", but " + files.vae.config +
              " has latent_channels " + number(latent) + " and twice as many are needed");
  require(config.unet.out_channels == latent, files.unet.config,
          "out_channels is " + number(config.unet.out_channels) + ", but " + files.vae.config +
              " has latent_channels " + number(latent));
  for (std::size_t i = 0; i < config.unet.levels.size(); ++i) {
    const auto& level = config.unet.levels[i];
    require(!attends(config.unet, i) || level.cross_attention_dim == config.clip.projection_dim,
            files.unet.config,
            "cross_attention_dim is " + number(level.cross_attention_dim) + ", but " +
                files.image_encoder.config + " has projection_dim " +
                number(config.clip.projection_dim));
  }
  const std::size_t halvings =
      config.vae.block_out_channels.size() - 1 + config.unet.levels.size() - 1;
  require(halvings <= 6, files.unet.config,
          "its levels and the VAE's halve a picture " + std::to_string(halvings) +
              " times, but pictures are padded to multiples of 64");
}

}  // namespace

UNetConfig read_unet_config(const std::string& file) {
  const Fields fields(file);
  // The research release's own class, which takes one context a frame, saves its own name.
  fields.choice("_class_name", "UNetSpatioTemporalConditionModel",
                {"UNetSpatioTemporalConditionModel",
                 "DiffusersUNetSpatioTemporalConditionModelNormalCrafter"});
  const std::string down = "DownBlockSpatioTemporal";
  const std::string cross_down = "CrossAttnDownBlockSpatioTemporal";
  const std::string up = "UpBlockSpatioTemporal";
  const std::string cross_up = "CrossAttnUpBlockSpatioTemporal";

  const auto channels = read_block_channels(fields, {320, 640, 1280, 1280});
  const std::size_t count = channels.size();
  const auto by_level = [&](const char* field, const std::vector<int>& absent, int most) {
    return fields.integers_by_level(field, absent, count, 1, most);
  };
  const auto layers = by_level("layers_per_block", std::vector<int>(count, 2), kMostLayers);
  const auto transformer_layers =
      by_level("transformer_layers_per_block", std::vector<int>(count, 1), kMostLayers);
  const auto context =
      by_level("cross_attention_dim", std::vector<int>(count, 1024), kMostChannels);
  const auto heads = by_level("num_attention_heads", {5, 10, 20, 20}, kMostChannels);
  const auto down_types = fields.choices_by_level(
      "down_block_types", {cross_down, cross_down, cross_down, down}, {down, cross_down}, count);
  const auto up_types = fields.choices_by_level(
      "up_block_types", {up, cross_up, cross_up, cross_up}, {up, cross_up}, count);

  UNetConfig config;
  for (std::size_t i = 0; i < count; ++i) {
    config.levels.push_back({.channels = channels[i],
                             .attention_heads = heads[i],
                             .layers = layers[i],
                             .transformer_layers = transformer_layers[i],
                             .cross_attention_dim = context[i],
                             .down_has_attention = down_types[i] == cross_down,
                             .up_has_attention = up_types[count - 1 - i] == cross_up});
  }
  check_heads(fields, config);
  config.in_channels = fields.integer("in_channels", 8, 1, kMostChannels);
  config.out_channels = fields.integer("out_channels", 4, 1, kMostChannels);
  config.addition_time_embed_dim = fields.integer("addition_time_embed_dim", 256, 2, kMostChannels);
  if (config.addition_time_embed_dim % 2 != 0) {
    fields.reject("addition_time_embed_dim", "only even numbers are supported");
  }
  config.projection_class_embeddings_input_dim =
      fields.integer("projection_class_embeddings_input_dim", 768, 1, 3 * kMostChannels);
  if (config.projection_class_embeddings_input_dim != 3 * config.addition_time_embed_dim) {
    fields.reject("projection_class_embeddings_input_dim",
                  "3 times addition_time_embed_dim is needed (frame rate, motion, noise), " +
                      std::to_string(3 * config.addition_time_embed_dim));
  }
  return config;
}

TemporalVaeConfig read_vae_config(const std::string& file) {
  const Fields fields(file);
  fields.choice("_class_name", "AutoencoderKLTemporalDecoder", {"AutoencoderKLTemporalDecoder"});
  TemporalVaeConfig config;
  config.in_channels = fields.integer("in_channels", 3, 3, 3);
  config.out_channels = fields.integer("out_channels", 3, 3, 3);
  config.latent_channels = fields.integer("latent_channels", 4, 1, kMostChannels);
  config.block_out_channels = read_block_channels(fields, {64});
  fields.choices_by_level("down_block_types", {"DownEncoderBlock2D"}, {"DownEncoderBlock2D"},
                          config.block_out_channels.size());
  config.layers_per_block = fields.integer("layers_per_block", 1, 1, kMostLayers);
  config.scaling_factor = fields.number("scaling_factor", 0.18215, 1e-6, 1e6);
  config.force_upcast = fields.flag("force_upcast", true);
  return config;
}

ClipVisionConfig read_clip_config(const std::string& file, const std::string& preprocessor_file) {
  const Fields fields(file);
  fields.choice("model_type", "clip_vision_model", {"clip_vision_model"});
  const json* architectures = fields.find("architectures");
  // null: not stated, as where a configuration was written without its model.
  if (architectures && !architectures->is_null() &&
      *architectures != json::array({"CLIPVisionModelWithProjection"})) {
    fields.reject("architectures", "only CLIPVisionModelWithProjection is supported");
  }
  ClipVisionConfig config;
  config.hidden_size = fields.integer("hidden_size", 768, 1, kMostChannels);
  config.intermediate_size = fields.integer("intermediate_size", 3072, 1, 4 * kMostChannels);
  config.num_hidden_layers = fields.integer("num_hidden_layers", 12, 1, kMostLayers);
  config.num_attention_heads = fields.integer("num_attention_heads", 12, 1, kMostChannels);
  if (config.hidden_size % config.num_attention_heads != 0) {
    fields.reject("num_attention_heads",
                  "it must divide hidden_size " + std::to_string(config.hidden_size));
  }
  fields.integer("num_channels", 3, 3, 3);
  config.image_size = fields.integer("image_size", 224, 1, 1 << 14);
  config.patch_size = fields.integer("patch_size", 32, 1, 1 << 14);
  if (config.patch_size > config.image_size) {
    fields.reject("patch_size", "image_size is only " + std::to_string(config.image_size));
  }
  config.projection_dim = fields.integer("projection_dim", 512, 1, kMostChannels);
  config.layer_norm_eps = fields.number("layer_norm_eps", 1e-5, 0, 1);
  config.hidden_act = fields.choice("hidden_act", "quick_gelu", {"gelu", "quick_gelu"});
  if (!preprocessor_file.empty()) {
    const Fields preprocessor(preprocessor_file);
    config.image_mean = preprocessor.triple("image_mean", config.image_mean, -1e3, 1e3);
    config.image_std = preprocessor.triple("image_std", config.image_std, 1e-6, 1e3);
  }
  return config;
}

EulerConfig read_scheduler_config(const std::string& file) {
  const Fields fields(file);
  refuse_unsupported_scheduler(fields);
  const auto betas = read_betas(fields);
  double sigma = training_sigma(betas, only_timestep(fields, betas.size()));

  const bool karras = fields.flag("use_karras_sigmas", false);
  const bool exponential = fields.flag("use_exponential_sigmas", false);
  if (karras && exponential) {
    fields.reject("use_exponential_sigmas", "use_karras_sigmas is true too");
  }
  // Both schedules run from sigma_max to sigma_min; the first of one step is sigma_max.
  fields.optional_number("sigma_min", 0, 1e6);
  const auto sigma_max = fields.optional_number("sigma_max", 1e-6, 1e6);
  if ((karras || exponential) && sigma_max) sigma = *sigma_max;

  const auto rounded = static_cast<float>(sigma);
  if (!std::isfinite(rounded) || rounded <= 0) {
    fields.reject("beta_start",
                  "with it and the other fields the step's sigma is " + std::to_string(sigma));
  }
  return {.sigma = rounded, .timestep = 0.25F * std::log(rounded)};
}

ModelConfig read_model_config(const ModelFiles& files) {
  ModelConfig config{
      .clip = read_clip_config(files.image_encoder.config, files.feature_extractor),
      .vae = read_vae_config(files.vae.config),
      .unet = read_unet_config(files.unet.config),
      .euler = read_scheduler_config(files.scheduler),
  };
  check_fit(config, files);
  return config;
}

}  // namespace normalcrafter
