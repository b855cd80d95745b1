#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "model/directory.h"
#include "model_files.h"

namespace normalcrafter {
namespace {

using nlohmann::json;
using testing::expect_error;
using testing::TemporaryDirectory;

// The released configurations.

const char* const kUNet = R"({
  "_class_name": "UNetSpatioTemporalConditionModel",
  "_diffusers_version": "0.24.0.dev0",
  "addition_time_embed_dim": 256,
  "block_out_channels": [320, 640, 1280, 1280],
  "cross_attention_dim": 1024,
  "down_block_types": ["CrossAttnDownBlockSpatioTemporal", "CrossAttnDownBlockSpatioTemporal",
                       "CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"],
  "in_channels": 8,
  "layers_per_block": 2,
  "num_attention_heads": [5, 10, 20, 20],
  "num_frames": 25,
  "out_channels": 4,
  "projection_class_embeddings_input_dim": 768,
  "sample_size": 96,
  "transformer_layers_per_block": 1,
  "up_block_types": ["UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal",
                     "CrossAttnUpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"]})";

const char* const kVae = R"({
  "_class_name": "AutoencoderKLTemporalDecoder",
  "block_out_channels": [128, 256, 512, 512],
  "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D",
                       "DownEncoderBlock2D"],
  "force_upcast": true, "in_channels": 3, "latent_channels": 4, "layers_per_block": 2,
  "out_channels": 3, "sample_size": 768, "scaling_factor": 0.18215})";

const char* const kClip = R"({
  "architectures": ["CLIPVisionModelWithProjection"], "attention_dropout": 0.0, "dropout": 0.0,
  "hidden_act": "gelu", "hidden_size": 1280, "image_size": 224, "initializer_factor": 1.0,
  "intermediate_size": 5120, "layer_norm_eps": 1e-05, "model_type": "clip_vision_model",
  "num_attention_heads": 16, "num_channels": 3, "num_hidden_layers": 32, "patch_size": 14,
  "projection_dim": 1024, "torch_dtype": "float16"})";

const char* const kPreprocessor = R"({
  "crop_size": {"height": 224, "width": 224}, "do_normalize": true,
  "image_mean": [0.48145466, 0.4578275, 0.40821073],
  "image_std": [0.26862954, 0.26130258, 0.27577711]})";

const char* const kScheduler = R"({
  "_class_name": "EulerDiscreteScheduler", "beta_end": 0.012, "beta_schedule": "scaled_linear",
  "beta_start": 0.00085, "clip_sample": false, "interpolation_type": "linear",
  "num_train_timesteps": 1000, "prediction_type": "v_prediction", "set_alpha_to_one": false,
  "sigma_max": 700.0, "sigma_min": 0.002, "skip_prk_steps": true, "steps_offset": 1,
  "timestep_spacing": "leading", "timestep_type": "continuous", "trained_betas": null,
  "use_karras_sigmas": true})";

/// `text` with some fields changed; null in `changes` removes a field, as JSON merge patches do.
std::string changed(const char* text, const char* changes) {
  json result = json::parse(text);
  result.merge_patch(json::parse(changes));
  return result.dump();
}

UNetConfig unet(const std::string& text) {
  const TemporaryDirectory directory;
  return read_unet_config(directory.write("unet.json", text));
}
TemporalVaeConfig vae(const std::string& text) {
  const TemporaryDirectory directory;
  return read_vae_config(directory.write("vae.json", text));
}
ClipVisionConfig clip(const std::string& text) {
  const TemporaryDirectory directory;
  return read_clip_config(directory.write("clip.json", text), "");
}
ClipVisionConfig preprocessor(const std::string& text) {
  const TemporaryDirectory directory;
  return read_clip_config(directory.write("clip.json", kClip),
                          directory.write("preprocessor.json", text));
}
EulerConfig scheduler(const std::string& text) {
  const TemporaryDirectory directory;
  return read_scheduler_config(directory.write("scheduler.json", text));
}

TEST(Config, ReadsTheReleasedUNet) {
  const UNetConfig config = unet(kUNet);
  ASSERT_EQ(config.levels.size(), 4U);
  EXPECT_EQ(config.in_channels, 8);
  EXPECT_EQ(config.out_channels, 4);
  EXPECT_EQ(config.addition_time_embed_dim, 256);
  EXPECT_EQ(config.projection_class_embeddings_input_dim, 768);
  const int channels[] = {320, 640, 1280, 1280};
  const int heads[] = {5, 10, 20, 20};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& level = config.levels[i];
    EXPECT_EQ(level.channels, channels[i]);
    EXPECT_EQ(level.attention_heads, heads[i]);
    EXPECT_EQ(level.layers, 2);
    EXPECT_EQ(level.transformer_layers, 1);
    EXPECT_EQ(level.cross_attention_dim, 1024);
    EXPECT_EQ(level.down_has_attention, i < 3);
    EXPECT_EQ(level.up_has_attention, i < 3);
  }
}

TEST(Config, AnEmptyUNetConfigurationHasTheReferencesDefaults) {
  const UNetConfig config = unet("{}");
  const UNetConfig released = unet(kUNet);
  ASSERT_EQ(config.levels.size(), released.levels.size());
  for (std::size_t i = 0; i < config.levels.size(); ++i) {
    EXPECT_EQ(config.levels[i].channels, released.levels[i].channels);
    EXPECT_EQ(config.levels[i].attention_heads, released.levels[i].attention_heads);
    EXPECT_EQ(config.levels[i].down_has_attention, released.levels[i].down_has_attention);
    EXPECT_EQ(config.levels[i].up_has_attention, released.levels[i].up_has_attention);
  }
}

TEST(Config, UNetListsGiveEachLevelItsOwnValueAndUpBlocksAreReversed) {
  const UNetConfig config = unet(R"({
    "block_out_channels": [32, 64, 96], "layers_per_block": [1, 2, 3],
    "transformer_layers_per_block": [4, 5, 6], "cross_attention_dim": [7, 8, 9],
    "num_attention_heads": [1, 2, 3],
    "down_block_types": ["DownBlockSpatioTemporal", "CrossAttnDownBlockSpatioTemporal",
                         "DownBlockSpatioTemporal"],
    "up_block_types": ["UpBlockSpatioTemporal", "UpBlockSpatioTemporal",
                       "CrossAttnUpBlockSpatioTemporal"]})");
  ASSERT_EQ(config.levels.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    const auto& level = config.levels[static_cast<std::size_t>(i)];
    EXPECT_EQ(level.layers, 1 + i);
    EXPECT_EQ(level.transformer_layers, 4 + i);
    EXPECT_EQ(level.cross_attention_dim, 7 + i);
    EXPECT_EQ(level.attention_heads, 1 + i);
    EXPECT_EQ(level.down_has_attention, i == 1);
    EXPECT_EQ(level.up_has_attention, i == 0);
  }
}

TEST(Config, TheResearchReleasesUNetClassIsAccepted) {
  EXPECT_EQ(unet(changed(kUNet, R"({"_class_name":
      "DiffusersUNetSpatioTemporalConditionModelNormalCrafter"})"))
                .levels.size(),
            4U);
}

TEST(Config, HeadsOfALevelWithoutAttentionNeedNotDivideItsChannels) {
  EXPECT_EQ(unet(R"({"block_out_channels": [32, 64], "num_attention_heads": [5, 2],
                     "down_block_types": ["DownBlockSpatioTemporal", "DownBlockSpatioTemporal"],
                     "up_block_types": ["UpBlockSpatioTemporal", "UpBlockSpatioTemporal"]})")
                .levels[0]
                .attention_heads,
            5);
}

TEST(Config, ReadsTheReleasedVae) {
  const TemporalVaeConfig config = vae(kVae);
  EXPECT_EQ(config.block_out_channels, (std::vector<int>{128, 256, 512, 512}));
  EXPECT_EQ(config.layers_per_block, 2);
  EXPECT_EQ(config.latent_channels, 4);
  EXPECT_EQ(config.scaling_factor, 0.18215);
  EXPECT_TRUE(config.force_upcast);
  EXPECT_EQ(config.spatial_factor(), 8);
  EXPECT_FALSE(vae(changed(kVae, R"({"force_upcast": false})")).force_upcast);
}

TEST(Config, AnEmptyVaeConfigurationHasTheReferencesDefaults) {
  const TemporalVaeConfig config = vae("{}");
  EXPECT_EQ(config.block_out_channels, (std::vector<int>{64}));
  EXPECT_EQ(config.layers_per_block, 1);
  EXPECT_EQ(config.latent_channels, 4);
  EXPECT_EQ(config.scaling_factor, 0.18215);
  EXPECT_EQ(config.spatial_factor(), 1);
}

TEST(Config, ReadsTheReleasedImageEncoder) {
  const ClipVisionConfig config = clip(kClip);
  EXPECT_EQ(config.hidden_size, 1280);
  EXPECT_EQ(config.intermediate_size, 5120);
  EXPECT_EQ(config.num_hidden_layers, 32);
  EXPECT_EQ(config.num_attention_heads, 16);
  EXPECT_EQ(config.image_size, 224);
  EXPECT_EQ(config.patch_size, 14);
  EXPECT_EQ(config.projection_dim, 1024);
  EXPECT_EQ(config.layer_norm_eps, 1e-5);
  EXPECT_EQ(config.hidden_act, "gelu");
}

TEST(Config, AnEmptyImageEncoderConfigurationHasTheReferencesDefaults) {
  const ClipVisionConfig config = clip("{}");
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.num_hidden_layers, 12);
  EXPECT_EQ(config.num_attention_heads, 12);
  EXPECT_EQ(config.patch_size, 32);
  EXPECT_EQ(config.projection_dim, 512);
  EXPECT_EQ(config.hidden_act, "quick_gelu");
}

TEST(Config, AnImageEncodersArchitectureMayBeNull) {
  json config = json::parse(kClip);
  config["architectures"] = nullptr;
  EXPECT_EQ(clip(config.dump()).hidden_size, 1280);
}

TEST(Config, ThePreprocessorsMeanAndDeviationReplaceClips) {
  const std::array<float, 3> published_mean = {0.48145466F, 0.4578275F, 0.40821073F};
  const std::array<float, 3> published_std = {0.26862954F, 0.26130258F, 0.27577711F};
  EXPECT_EQ(clip(kClip).image_mean, published_mean);
  EXPECT_EQ(preprocessor(kPreprocessor).image_mean, published_mean);
  EXPECT_EQ(preprocessor("{}").image_std, published_std);
  const auto own = preprocessor(R"({"image_mean": [0.5, 0.25, 0], "image_std": 0.5})");
  EXPECT_EQ(own.image_mean, (std::array<float, 3>{0.5F, 0.25F, 0}));
  EXPECT_EQ(own.image_std, (std::array<float, 3>{0.5F, 0.5F, 0.5F}));
}

struct EulerCase {
  const char* config;
  double sigma;
  double timestep;
};

// Made by make_euler_cases.py from diffusers' EulerDiscreteScheduler.
const EulerCase kEulerCases[] = {
#include "euler_cases.inc"
};

TEST(Config, TheOneStepsSigmaAndTimestepAreTheReferences) {
  for (const auto& expected : kEulerCases) {
    const EulerConfig config = scheduler(expected.config);
    // A few units in float32's last place.
    EXPECT_NEAR(config.sigma, expected.sigma, 4e-7 * expected.sigma) << expected.config;
    EXPECT_NEAR(config.timestep, expected.timestep, 4e-7) << expected.config;
  }
}

TEST(Config, ReadsTheReleasedScheduler) {
  const EulerConfig config = scheduler(kScheduler);
  EXPECT_EQ(config.sigma, 700.0);
  EXPECT_NEAR(config.timestep, 0.25 * std::log(700.0), 2e-7);
}

/// A configuration to refuse: which reader, what is changed in the released one, the field at
/// fault.
struct Refused {
  const char* file;
  const char* changes;
  const char* field;
  const char* value;
};

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.file << " " << refused.changes;
}

const Refused kRefused[] = {
    {"unet", R"({"_class_name": "UNet2DConditionModel"})", "_class_name", "UNet2DConditionModel"},
    {"unet", R"({"in_channels": "8"})", "in_channels", "\"8\""},
    {"unet", R"({"in_channels": 0})", "in_channels", "0"},
    {"unet", R"({"in_channels": -8})", "in_channels", "-8"},
    {"unet", R"({"in_channels": 8.5})", "in_channels", "8.5"},
    {"unet", R"({"in_channels": true})", "in_channels", "true"},
    {"unet", R"({"in_channels": [8]})", "in_channels", "[8]"},
    {"unet", R"({"in_channels": 18446744073709551615})", "in_channels", "18446744073709551615"},
    {"unet", R"({"out_channels": 1000000000})", "out_channels", "1000000000"},
    {"unet", R"({"block_out_channels": 320})", "block_out_channels", "320"},
    {"unet", R"({"block_out_channels": []})", "block_out_channels", "[]"},
    {"unet", R"({"block_out_channels": [320, 640, 1280, 1290]})", "block_out_channels", "1290"},
    {"unet", R"({"block_out_channels": [320, 640, 1280, "x"]})", "block_out_channels", "\"x\""},
    {"unet", R"({"block_out_channels": [320, 640, 1280]})", "num_attention_heads", "3 levels"},
    {"unet", R"({"layers_per_block": [2, 2]})", "layers_per_block", "4 levels"},
    {"unet", R"({"layers_per_block": 0})", "layers_per_block", "0"},
    {"unet", R"({"transformer_layers_per_block": [[1, 1], 1, 1, 1]})",
     "transformer_layers_per_block", "[[1,1],1,1,1]"},
    {"unet", R"({"cross_attention_dim": [1024]})", "cross_attention_dim", "[1024]"},
    {"unet", R"({"num_attention_heads": [7, 10, 20, 20]})", "num_attention_heads", "level 0"},
    {"unet", R"({"num_attention_heads": [5, 10, 20, 21]})", "num_attention_heads", "level 3"},
    {"unet", R"({"num_attention_heads": 0})", "num_attention_heads", "0"},
    {"unet",
     R"({"down_block_types": ["DownBlock3D", "DownBlock3D", "DownBlock3D", "DownBlock3D"]})",
     "down_block_types", "DownBlock3D"},
    {"unet", R"({"down_block_types": ["DownBlockSpatioTemporal"]})", "down_block_types",
     "4 levels"},
    {"unet", R"({"down_block_types": "DownBlockSpatioTemporal"})", "down_block_types", "list"},
    {"unet", R"({"up_block_types": [1, 2, 3, 4]})", "up_block_types", "[1,2,3,4]"},
    {"unet", R"({"addition_time_embed_dim": 255, "projection_class_embeddings_input_dim": 765})",
     "addition_time_embed_dim", "255"},
    {"unet", R"({"projection_class_embeddings_input_dim": 1024})",
     "projection_class_embeddings_input_dim", "1024"},
    {"vae", R"({"_class_name": "AutoencoderKL"})", "_class_name", "AutoencoderKL"},
    {"vae", R"({"in_channels": 4})", "in_channels", "4"},
    {"vae", R"({"out_channels": 1})", "out_channels", "1"},
    {"vae", R"({"latent_channels": -4})", "latent_channels", "-4"},
    {"vae", R"({"block_out_channels": [128, 256, 512, 500]})", "block_out_channels", "500"},
    {"vae", R"({"block_out_channels": [32,32,32,32,32,32,32,32,32,32,32,32,32,32,32,32,32]})",
     "block_out_channels", "16 levels"},
    {"vae", R"({"down_block_types": ["DownEncoderBlock2D"]})", "down_block_types", "4 levels"},
    {"vae", R"({"down_block_types": ["a", "b", "c", "d"]})", "down_block_types", "[\"a\""},
    {"vae", R"({"layers_per_block": [2, 2, 2, 2]})", "layers_per_block", "[2,2,2,2]"},
    {"vae", R"({"scaling_factor": 0})", "scaling_factor", "0"},
    {"vae", R"({"scaling_factor": "0.18"})", "scaling_factor", "\"0.18\""},
    {"vae", R"({"force_upcast": 1})", "force_upcast", "1"},
    {"clip", R"({"model_type": "clip"})", "model_type", "clip"},
    {"clip", R"({"architectures": ["CLIPVisionModel"]})", "architectures", "CLIPVisionModel"},
    {"clip", R"({"hidden_act": "relu"})", "hidden_act", "relu"},
    {"clip", R"({"hidden_act": 3})", "hidden_act", "3"},
    {"clip", R"({"hidden_size": -1})", "hidden_size", "-1"},
    {"clip", R"({"num_attention_heads": 17})", "num_attention_heads", "1280"},
    {"clip", R"({"num_channels": 1})", "num_channels", "1"},
    {"clip", R"({"patch_size": 225})", "patch_size", "225"},
    {"clip", R"({"image_size": [224, 224]})", "image_size", "[224,224]"},
    {"clip", R"({"layer_norm_eps": -1e-5})", "layer_norm_eps", "-1e-05"},
    {"preprocessor", R"({"image_mean": [0.5, 0.5]})", "image_mean", "[0.5,0.5]"},
    {"preprocessor", R"({"image_std": [0.5, 0, 0.5]})", "image_std", "[0.5,0,0.5]"},
    {"preprocessor", R"({"image_std": "x"})", "image_std", "\"x\""},
    {"scheduler", R"({"_class_name": "DDIMScheduler"})", "_class_name", "DDIMScheduler"},
    {"scheduler", R"({"prediction_type": "epsilon"})", "prediction_type", "epsilon"},
    {"scheduler", R"({"prediction_type": null})", "prediction_type", "default is epsilon"},
    {"scheduler", R"({"timestep_type": "discrete"})", "timestep_type", "discrete"},
    {"scheduler", R"({"timestep_type": null})", "timestep_type", "default is discrete"},
    {"scheduler", R"({"interpolation_type": "log_linear"})", "interpolation_type", "log_linear"},
    {"scheduler", R"({"final_sigmas_type": "sigma_min"})", "final_sigmas_type", "sigma_min"},
    {"scheduler", R"({"timestep_spacing": "other"})", "timestep_spacing", "other"},
    {"scheduler", R"({"beta_schedule": "exp"})", "beta_schedule", "exp"},
    {"scheduler", R"({"trained_betas": [0.1, 0.2]})", "trained_betas", "[0.1,0.2]"},
    {"scheduler", R"({"use_beta_sigmas": true})", "use_beta_sigmas", "true"},
    {"scheduler", R"({"rescale_betas_zero_snr": true})", "rescale_betas_zero_snr", "true"},
    {"scheduler", R"({"use_exponential_sigmas": true})", "use_exponential_sigmas", "true"},
    {"scheduler", R"({"use_karras_sigmas": "yes"})", "use_karras_sigmas", "\"yes\""},
    {"scheduler", R"({"sigma_max": 0})", "sigma_max", "0"},
    {"scheduler", R"({"sigma_max": "700"})", "sigma_max", "\"700\""},
    {"scheduler", R"({"sigma_min": -1})", "sigma_min", "-1"},
    {"scheduler", R"({"num_train_timesteps": 0})", "num_train_timesteps", "0"},
    {"scheduler", R"({"steps_offset": -1})", "steps_offset", "-1"},
    {"scheduler", R"({"beta_start": 0, "steps_offset": 0, "sigma_max": null})", "beta_start", "0"},
};

class RefusedConfig : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedConfig, NamesFileFieldAndValue) {
  const auto& refused = GetParam();
  const std::string file = refused.file;
  const auto read = [&] {
    if (file == "unet") unet(changed(kUNet, refused.changes));
    if (file == "vae") vae(changed(kVae, refused.changes));
    if (file == "clip") clip(changed(kClip, refused.changes));
    if (file == "preprocessor") preprocessor(changed(kPreprocessor, refused.changes));
    if (file == "scheduler") scheduler(changed(kScheduler, refused.changes));
  };
  expect_error(ErrorCode::InvalidModel, read, "/" + file + ".json: " + refused.field + " is ",
               refused.value);
}

INSTANTIATE_TEST_SUITE_P(Config, RefusedConfig, ::testing::ValuesIn(kRefused));

TEST(Config, JsonThatIsNotAConfigurationIsRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "is empty"},
      {"{", "not JSON"},
      {"[]", "not a JSON object"},
      {"null", "not a JSON object"},
      {"{\"in_channels\": 8, \"in_channels\": 4}", "\"in_channels\" twice"},
      {std::string("{}\0x", 4), "NUL"},
      {"{\"a\": \"\xff\"}", "not JSON"},
      {"{\"a\": " + std::string(100'000, '['), "too deeply"},
  };
  for (const auto& [text, reason] : cases) {
    expect_error(
        ErrorCode::InvalidModel, [&] { unet(text); }, "unet.json: ", reason);
  }
}

TEST(Config, AMissingConfigurationIsNotFound) {
  expect_error(
      ErrorCode::NotFound, [] { read_unet_config("/nowhere/config.json"); },
      "/nowhere/config.json");
}

/// The released configurations on disk, some fields changed.
ModelConfig together(const char* unet_changes, const char* vae_changes, const char* clip_changes) {
  const TemporaryDirectory directory;
  ModelFiles files;
  files.unet.config = directory.write("unet/config.json", changed(kUNet, unet_changes));
  files.vae.config = directory.write("vae/config.json", changed(kVae, vae_changes));
  files.image_encoder.config =
      directory.write("image_encoder/config.json", changed(kClip, clip_changes));
  files.scheduler = directory.write("scheduler/scheduler_config.json", kScheduler);
  return read_model_config(files);
}

TEST(Config, TheReleasedConfigurationsFitTogether) {
  const ModelConfig config = together("{}", "{}", "{}");
  EXPECT_EQ(config.unet.levels.size(), 4U);
  EXPECT_EQ(config.vae.latent_channels, 4);
  EXPECT_EQ(config.clip.projection_dim, 1024);
  EXPECT_EQ(config.euler.sigma, 700.0);
}

TEST(Config, ComponentsThatDoNotFitNameBothSides) {
  const auto refuse = [](const char* unet_changes, const char* vae_changes,
                         const char* clip_changes, const char* field, const char* other) {
    expect_error(
        ErrorCode::InvalidModel, [&] { together(unet_changes, vae_changes, clip_changes); },
        "unet/config.json: ", field, other);
  };
  refuse(R"({"in_channels": 4})", "{}", "{}", "in_channels is 4", "latent_channels 4");
  refuse(R"({"out_channels": 8})", "{}", "{}", "out_channels is 8", "vae/config.json");
  refuse("{}", R"({"latent_channels": 8})", "{}", "in_channels is 8", "latent_channels 8");
  refuse("{}", "{}", R"({"projection_dim": 768})", "cross_attention_dim is 1024",
         "projection_dim 768");
  refuse("{}",
         R"({"block_out_channels": [32, 32, 32, 32, 32],
             "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D",
                                  "DownEncoderBlock2D", "DownEncoderBlock2D"]})",
         "{}", "7 times", "multiples of 64");
}

}  // namespace
}  // namespace normalcrafter
