#include "model/directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model_files.h"

namespace normalcrafter {
namespace {

using testing::expect_error;
using testing::safetensors;
using testing::TemporaryDirectory;

const std::string kWeights = safetensors("{}");

void write_component(const TemporaryDirectory& root, const std::string& component) {
  const std::string stem = component == "image_encoder" ? "model" : "diffusion_pytorch_model";
  root.write(component + "/config.json", "{}");
  root.write(component + "/" + stem + ".safetensors", kWeights);
}

void write_model(const TemporaryDirectory& root) {
  for (const auto* component : {"unet", "vae", "image_encoder"}) write_component(root, component);
  root.write("scheduler/scheduler_config.json", "{}");
  root.write("feature_extractor/preprocessor_config.json", "{}");
}

/// A model of which one file is to be tried, so that each test writes only what it is about.
class Directory : public ::testing::Test {
 protected:
  Directory() { write_model(root_); }

  ModelFiles find() const { return find_model_files(root_.path(), ""); }
  void remove(const std::string& name) const { std::filesystem::remove_all(root_.path(name)); }
  /// unet/ without weights.
  void drop_unet_weights() const { remove("unet/diffusion_pytorch_model.safetensors"); }

  TemporaryDirectory root_;
};

TEST_F(Directory, FindsEveryComponentOfThePublishedLayout) {
  const ModelFiles files = find();
  EXPECT_EQ(files.unet.config, root_.path("unet/config.json"));
  EXPECT_EQ(files.unet.weights.files,
            std::vector{root_.path("unet/diffusion_pytorch_model.safetensors")});
  EXPECT_EQ(files.unet.weights.name, files.unet.weights.files[0]);
  EXPECT_TRUE(files.unet.weights.shard_of.empty());
  EXPECT_EQ(files.vae.weights.files,
            std::vector{root_.path("vae/diffusion_pytorch_model.safetensors")});
  EXPECT_EQ(files.image_encoder.weights.files,
            std::vector{root_.path("image_encoder/model.safetensors")});
  EXPECT_EQ(files.scheduler, root_.path("scheduler/scheduler_config.json"));
  EXPECT_EQ(files.feature_extractor, root_.path("feature_extractor/preprocessor_config.json"));
  EXPECT_EQ(files.axes, "");
}

TEST_F(Directory, TheFeatureExtractorIsOptional) {
  remove("feature_extractor");
  EXPECT_EQ(find().feature_extractor, "");
}

TEST_F(Directory, AnyComponentMissingIsTakenFromTheBaseDirectory) {
  for (const std::string component :
       {"unet", "vae", "image_encoder", "scheduler", "feature_extractor"}) {
    const TemporaryDirectory own;
    write_model(own);
    std::filesystem::remove_all(own.path(component));
    const ModelFiles files = find_model_files(own.path(), root_.path());
    const auto from = [&](const std::string& name) {
      return (name == component ? root_ : own).path(name) + "/";
    };
    EXPECT_EQ(files.unet.config, from("unet") + "config.json");
    EXPECT_EQ(files.vae.config, from("vae") + "config.json");
    EXPECT_EQ(files.vae.weights.name, from("vae") + "diffusion_pytorch_model.safetensors");
    EXPECT_EQ(files.image_encoder.weights.name, from("image_encoder") + "model.safetensors");
    EXPECT_EQ(files.scheduler, from("scheduler") + "scheduler_config.json");
    EXPECT_EQ(files.feature_extractor, from("feature_extractor") + "preprocessor_config.json");
  }
}

TEST_F(Directory, AComponentInNeitherDirectoryNamesBothAndWhatToDo) {
  remove("image_encoder");
  expect_error(
      ErrorCode::NotFound, [&] { find(); }, "no image_encoder/ in", root_.path(), "copy it there",
      "base model");
  const TemporaryDirectory base;
  expect_error(
      ErrorCode::NotFound, [&] { find_model_files(root_.path(), base.path()); }, root_.path(),
      "nor in", base.path());
}

TEST_F(Directory, AnIncompleteComponentIsNotMixedWithTheBaseDirectorys) {
  const TemporaryDirectory base;
  write_model(base);
  remove("vae/config.json");
  expect_error(
      ErrorCode::NotFound, [&] { find_model_files(root_.path(), base.path()); },
      "no config.json in", root_.path("vae"));
}

TEST_F(Directory, AMissingModelDirectoryIsNotFound) {
  expect_error(
      ErrorCode::NotFound, [] { find_model_files("/nowhere/model", ""); },
      "model directory \"/nowhere/model\" does not exist");
  expect_error(
      ErrorCode::NotFound, [] { find_model_files("", ""); }, "model directory");
  expect_error(
      ErrorCode::NotFound, [&] { find_model_files(root_.path(), "/nowhere/base"); },
      "base model directory \"/nowhere/base\" does not exist");
}

TEST_F(Directory, AFileInTheDirectorysPlaceIsNamed) {
  const std::string file = root_.write("model.safetensors", kWeights);
  expect_error(
      ErrorCode::NotFound, [&] { find_model_files(file, ""); }, file, "not a directory",
      "holds unet/");
}

TEST_F(Directory, AFileInAComponentsPlaceIsNamed) {
  remove("vae");
  root_.write("vae", "");
  expect_error(
      ErrorCode::NotFound, [&] { find(); }, root_.path("vae"), "not a directory");
}

TEST_F(Directory, ADirectoryThatMayNotBeSearchedIsAnError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may search everything";
  ASSERT_EQ(::chmod(root_.path("unet").c_str(), 0), 0);
  expect_error(
      ErrorCode::OpenRead, [&] { find(); }, root_.path("unet"), "denied");
  ASSERT_EQ(::chmod(root_.path("unet").c_str(), 0700), 0);
}

TEST_F(Directory, ALinkThatGoesInCirclesIsAnError) {
  remove("unet");
  std::filesystem::create_directory_symlink("unet", root_.path("unet"));
  expect_error(
      ErrorCode::OpenRead, [&] { find(); }, root_.path("unet"), "symbolic links");
}

TEST_F(Directory, LinkedFilesCountAsHubCachesLinkThem) {
  std::filesystem::rename(root_.path("unet/diffusion_pytorch_model.safetensors"),
                          root_.path("blob"));
  std::filesystem::create_symlink("../blob",
                                  root_.path("unet/diffusion_pytorch_model.safetensors"));
  EXPECT_EQ(find().unet.weights.name, root_.path("unet/diffusion_pytorch_model.safetensors"));
}

TEST_F(Directory, PlainWeightsArePreferredToFp16AndASingleFileToShards) {
  // From the last choice up: each one written takes precedence over those before.
  drop_unet_weights();
  root_.write("unet/a.safetensors", kWeights);
  const std::string index =
      R"({"metadata": {"total_size": 0}, "weight_map": {"x": "a.safetensors"}})";
  for (const std::string name :
       {"diffusion_pytorch_model.fp16.safetensors.index.json",
        "diffusion_pytorch_model.safetensors.index.fp16.json",
        "diffusion_pytorch_model.fp16.safetensors",
        "diffusion_pytorch_model.safetensors.index.json", "diffusion_pytorch_model.safetensors"}) {
    const bool is_index = name.ends_with(".json");
    root_.write("unet/" + name, is_index ? index : kWeights);
    const WeightFiles weights = find().unet.weights;
    EXPECT_EQ(weights.name, root_.path("unet/" + name));
    EXPECT_EQ(weights.files,
              std::vector{root_.path("unet/" + (is_index ? "a.safetensors" : name))});
    EXPECT_EQ(weights.shard_of.empty(), !is_index);
  }
}

TEST_F(Directory, AnIndexNamesEachTensorsShard) {
  drop_unet_weights();
  root_.write("unet/1.safetensors", kWeights);
  root_.write("unet/2.safetensors", kWeights);
  root_.write(
      "unet/diffusion_pytorch_model.safetensors.index.json",
      R"({"weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"}})");
  const WeightFiles weights = find().unet.weights;
  EXPECT_EQ(weights.files,
            (std::vector{root_.path("unet/1.safetensors"), root_.path("unet/2.safetensors")}));
  EXPECT_EQ(weights.shard_of.at("a"), root_.path("unet/2.safetensors"));
  EXPECT_EQ(weights.shard_of.at("b"), root_.path("unet/1.safetensors"));
  EXPECT_EQ(weights.shard_of.size(), 3U);
}

TEST_F(Directory, AnIndexMayNotPointOutOfItsFolder) {
  drop_unet_weights();
  const std::string index = "unet/diffusion_pytorch_model.safetensors.index.json";
  for (const std::string shard :
       {R"("/etc/passwd")", R"("../vae/diffusion_pytorch_model.safetensors")", R"("sub/a")",
        R"("a\\b")", R"("..")", R"(".")", R"("")", R"("a\u0000b")", "1", "null", R"(["a"])"}) {
    root_.write(index, R"({"weight_map": {"conv_in.weight": )" + shard + "}}");
    expect_error(
        ErrorCode::InvalidModel, [&] { find(); }, root_.path(index), "\"conv_in.weight\"",
        "plain file name");
  }
}

TEST_F(Directory, AnIndexWithoutAMapIsRefused) {
  drop_unet_weights();
  const std::string index = "unet/diffusion_pytorch_model.safetensors.index.json";
  for (const auto* text : {"{}", R"({"weight_map": {}})", R"({"weight_map": []})"}) {
    root_.write(index, text);
    expect_error(
        ErrorCode::InvalidModel, [&] { find(); }, root_.path(index), "weight_map");
  }
  root_.write(index, R"({"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}})");
  expect_error(
      ErrorCode::InvalidModel, [&] { find(); }, root_.path(index), "\"a\" twice");
}

TEST_F(Directory, AShardThatIsNotThereIsNamed) {
  drop_unet_weights();
  const std::string index =
      root_.write("unet/diffusion_pytorch_model.safetensors.index.json",
                  R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})");
  expect_error(
      ErrorCode::NotFound, [&] { find(); }, index, "\"model-00001-of-00002.safetensors\"",
      "not there");
}

TEST_F(Directory, PickledWeightsAloneAreRefusedSayingThatSafetensorsAreNeeded) {
  drop_unet_weights();
  expect_error(
      ErrorCode::NotFound, [&] { find(); }, "no diffusion_pytorch_model.safetensors",
      root_.path("unet"));
  root_.write("unet/diffusion_pytorch_model.bin", "");
  expect_error(
      ErrorCode::NotFound, [&] { find(); }, "\"diffusion_pytorch_model.bin\"",
      "only safetensors are read");
}

TEST_F(Directory, TheAxesConventionIsReadFromTheModelsOwnDirectoryOnly) {
  root_.write("normalcrafter.json", R"({"axes": "opengl", "note": 1})");
  EXPECT_EQ(find().axes, "opengl");
  const TemporaryDirectory own;
  EXPECT_EQ(find_model_files(own.path(), root_.path()).axes, "");
  root_.write("normalcrafter.json", "{}");
  EXPECT_EQ(find().axes, "");
}

TEST_F(Directory, AxesThatAreNoTextAreRefused) {
  const std::string path = root_.write("normalcrafter.json", R"({"axes": ["x", "y"]})");
  expect_error(
      ErrorCode::InvalidModel, [&] { find(); }, path, "axes is [\"x\",\"y\"]");
}

}  // namespace
}  // namespace normalcrafter
