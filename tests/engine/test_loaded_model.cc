// The loaded model: what opening checks, sharing, residency, and that waits can be cancelled.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "engine_fixture.h"
#include "normalcrafter/engine.h"
#include "tensor_files.h"

namespace normalcrafter {
namespace {

using test::TinyModel;
using testing::expect_error;

constexpr const char* kUnetFile = "/unet/diffusion_pytorch_model.safetensors";

const std::atomic<bool> kNever = false;

bool same_frames(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return true;
}

TEST(LoadedModel, AskedForTwiceIsOneModelWhileItLives) {
  const TinyModel tiny;
  auto first = tiny.open();
  EXPECT_EQ(first, tiny.open());
  EXPECT_NE(first, tiny.open(Dtype::BFloat16));
  const std::weak_ptr<LoadedModel> watched = first;
  first.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(LoadedModel, IsAnotherOnceItsWeightsHaveBeenReplaced) {
  const TinyModel tiny;
  const auto first = tiny.open();
  const std::string file = tiny.options().directory + kUnetFile;
  std::filesystem::copy_file(file, file + ".part");
  std::filesystem::rename(file + ".part", file);
  const auto second = tiny.open();
  EXPECT_NE(first, second);
  EXPECT_EQ(second, tiny.open());
}

TEST(LoadedModel, IsTheSameByAnotherSpellingOfItsPath) {
  const TinyModel tiny;
  ModelOptions options = tiny.options();
  const auto model = tiny.open();
  options.directory += "/unet/..";
  EXPECT_EQ(model, open_shared_model(options, {}));
}

TEST(LoadedModel, StagedAndResidentGiveTheSameBits) {
  const TinyModel tiny;
  const auto frames = test::random_frames(8, {64, 64}, 3);
  EXPECT_TRUE(
      same_frames(test::stream(tiny.open(), frames, test::small_windows(OffloadMode::Staged)),
                  test::stream(tiny.open(), frames, test::small_windows(OffloadMode::Resident))));
}

TEST(LoadedModel, StagedHoldsOnlyTheActiveNetwork) {
  const TinyModel tiny;
  const auto model = tiny.open();
  const Checkpoint checkpoint(kNever);
  model->load(checkpoint, {});
  for (const Stage stage : {Stage::Clip, Stage::Encode, Stage::Unet, Stage::Decode}) {
    const auto scope = model->enter(stage, checkpoint);
    EXPECT_EQ(model->resident_networks(), std::vector<Stage>{stage});
  }
  EXPECT_TRUE(model->resident_networks().empty());
}

TEST(LoadedModel, StaysWholeWhileAnyUserWantsItResident) {
  const TinyModel tiny;
  const auto model = tiny.open();
  const Checkpoint checkpoint(kNever);
  auto resident = model->join(OffloadMode::Resident);
  const auto staged = model->join(OffloadMode::Staged);
  model->load(checkpoint, {});
  model->enter(Stage::Unet, checkpoint);
  model->offload();
  EXPECT_EQ(model->resident_networks().size(), 4u);
  resident.reset();
  model->enter(Stage::Unet, checkpoint);
  EXPECT_TRUE(model->resident_networks().empty());
}

TEST(LoadedModel, OffloadAskedForDuringAStageHappensAtItsEnd) {
  const TinyModel tiny;
  const auto model = tiny.open();
  const Checkpoint checkpoint(kNever);
  {
    const auto resident = model->join(OffloadMode::Resident);
    model->load(checkpoint, {});
  }
  auto scope = model->enter(Stage::Clip, checkpoint);
  std::thread([&] { model->offload(); }).join();  // must not wait for the stage
  scope.reset();
  EXPECT_TRUE(model->resident_networks().empty());
}

TEST(LoadedModel, OffloadAskedForByTheThreadThatIsInAStageHappensAtItsEnd) {
  const TinyModel tiny;
  const auto model = tiny.open();
  auto scope = model->enter(Stage::Clip, Checkpoint(kNever));
  const auto used = model->resident_networks();
  ASSERT_FALSE(used.empty());
  model->offload();  // as from a progress callback
  EXPECT_EQ(model->resident_networks(), used);
  scope.reset();
  EXPECT_TRUE(model->resident_networks().empty());
}

TEST(LoadedModel, WaitingForAStageEndsWithItsCancellation) {
  const TinyModel tiny;
  const auto model = tiny.open();
  const auto scope = model->enter(Stage::Clip, Checkpoint(kNever));
  std::atomic<bool> cancelled = false;
  std::chrono::steady_clock::time_point asked;
  std::chrono::steady_clock::duration waited{};
  std::thread waiter([&] {
    EXPECT_THROW(model->enter(Stage::Unet, Checkpoint(cancelled)), Error);
    waited = std::chrono::steady_clock::now() - asked;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  asked = std::chrono::steady_clock::now();
  cancelled = true;
  waiter.join();
  EXPECT_LT(waited, std::chrono::milliseconds(500));
}

TEST(LoadedModel, CancelledLoadLeavesAModelThatLoadsLater) {
  const TinyModel tiny;
  const auto model = tiny.open();
  const auto resident = model->join(OffloadMode::Resident);
  std::atomic<bool> cancelled = false;
  EXPECT_THROW(model->load(Checkpoint(cancelled),
                           [&](std::uint64_t done, std::uint64_t) { cancelled = done > 100000; }),
               Error);
  EXPECT_LT(model->resident_networks().size(), 4u);
  model->load(Checkpoint(kNever), {});
  EXPECT_EQ(model->resident_networks().size(), 4u);
}

TEST(LoadedModel, LoadingReportsBytesUpToTheTotal) {
  const TinyModel tiny;
  const auto model = tiny.open();
  const auto resident = model->join(OffloadMode::Resident);
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  int calls = 0;
  model->load(Checkpoint(kNever), [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, all);
    last = done;
    total = all;
    ++calls;
  });
  EXPECT_EQ(last, total);
  EXPECT_GT(calls, 4);
}

TEST(OpeningAModel, NamesAMissingTensor) {
  const TinyModel tiny;
  auto tensors = test::read_tensors(tiny.directory() + kUnetFile);
  tensors.erase("mid_block.attentions.0.time_mixer.mix_factor");
  test::write_tensors(tiny.directory() + kUnetFile, tensors);
  expect_error(
      ErrorCode::InvalidModel, [&] { tiny.open(); }, "mid_block.attentions.0.time_mixer.mix_factor",
      "unet");
}

TEST(OpeningAModel, NamesATensorOfTheWrongShapeAndBothShapes) {
  const TinyModel tiny;
  auto tensors = test::read_tensors(tiny.directory() + kUnetFile);
  tensors["conv_in.weight"] = at::zeros({32, 8, 3, 1});
  test::write_tensors(tiny.directory() + kUnetFile, tensors);
  expect_error(
      ErrorCode::InvalidModel, [&] { tiny.open(); }, "conv_in.weight", "32, 8, 3, 3",
      "32, 8, 3, 1");
}

TEST(OpeningAModel, NamesATensorOfATypeThatWeightsDoNotHave) {
  for (const std::string name :
       {"conv_in.weight", "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight"}) {
    const TinyModel tiny;
    const std::string path = tiny.directory() + kUnetFile;
    std::stringstream content;
    content << std::ifstream(path, std::ios::binary).rdbuf();
    std::string bytes = content.str();
    const std::string dtype = R"("dtype":"F32")";
    bytes.replace(bytes.find(dtype, bytes.find('"' + name + '"')), dtype.size(),
                  R"("dtype":"I32")");
    std::ofstream(path, std::ios::binary) << bytes;
    expect_error(
        ErrorCode::InvalidModel, [&] { tiny.open(); }, name, "I32", "BF16");
  }
}

TEST(OpeningAModel, ChecksTensorsThatAreNotReadToo) {
  const TinyModel tiny;
  auto tensors = test::read_tensors(tiny.directory() + kUnetFile);
  tensors.erase("down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight");
  test::write_tensors(tiny.directory() + kUnetFile, tensors);
  expect_error(
      ErrorCode::InvalidModel, [&] { tiny.open(); }, "attn2.to_k.weight");
}

TEST(OpeningAModel, WarnsOnceOfAllSuperfluousTensors) {
  const TinyModel tiny;
  const std::string file = tiny.directory() + "/image_encoder/model.safetensors";
  auto tensors = test::read_tensors(file);
  tensors["vision_model.embeddings.position_ids"] = at::zeros({1, 5});
  tensors["extra"] = at::zeros({2});
  test::write_tensors(file, tensors);
  std::vector<std::string> warnings;
  tiny.open(Dtype::Float32, [&](LogLevel level, const std::string& text) {
    if (level == LogLevel::Warning) warnings.push_back(text);
  });
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("position_ids"), std::string::npos);
  EXPECT_NE(warnings[0].find("extra"), std::string::npos);
}

TEST(OpeningAModel, RefusesFloat16OnTheCpuWithTheReason) {
  const TinyModel tiny;
  expect_error(
      ErrorCode::Settings, [&] { tiny.open(Dtype::Float16); }, "float16", "CPU", "slower");
}

TEST(OpeningAModel, RefusesUnknownAndAbsentDevicesByName) {
  const TinyModel tiny;
  ModelOptions options = tiny.options();
  for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", ""}) {
    options.device = device;
    expect_error(
        ErrorCode::Settings, [&] { open_shared_model(options, {}); }, device);
  }
  if (!at::hasCUDA()) {
    options.device = "cuda:0";
    expect_error(
        ErrorCode::DeviceUnavailable, [&] { open_shared_model(options, {}); }, "cuda:0");
  }
}

TEST(OpeningAModel, AutoSaysWhatItTook) {
  const TinyModel tiny;
  std::string messages;
  ModelOptions options = tiny.options(Dtype::Auto);
  const auto model = open_shared_model(
      options, [&](LogLevel, const std::string& text) { messages += text + "\n"; });
  EXPECT_NE(model->info().dtype, Dtype::Auto);
  EXPECT_NE(messages.find("cpu"), std::string::npos);
  EXPECT_NE(messages.find("float"), std::string::npos);
}

TEST(OpeningAModel, TellsTheSecondOpenerToo) {
  const TinyModel tiny;
  const auto first = tiny.open(Dtype::BFloat16);
  std::vector<std::string> messages;
  const LogFunction log = [&](LogLevel, const std::string& text) { messages.push_back(text); };
  EXPECT_EQ(open_shared_model(tiny.options(Dtype::BFloat16), log), first);
  ASSERT_FALSE(messages.empty());
  EXPECT_NE(messages[0].find("cpu in bfloat16, shared"), std::string::npos) << messages[0];
}

TEST(OpeningAModel, PeakMemoryIsTheProcesssOnTheCpu) {
  const TinyModel tiny;
  const auto model = open_shared_model(tiny.options(Dtype::Float32), {});
  const std::uint64_t before = model->peak_bytes();
  EXPECT_GT(before, 1U << 20);
  constexpr std::size_t kMore = 64U << 20;
  const std::vector<char> touched(before + kMore, 1);
  EXPECT_GE(model->peak_bytes(), before + kMore);
}

TEST(EngineEntryPoint, AnswersItsOwnAbiOnly) {
  EXPECT_NE(normalcrafter_engine(kEngineAbi), nullptr);
  EXPECT_EQ(normalcrafter_engine(kEngineAbi + 1), nullptr);
}

}  // namespace
}  // namespace normalcrafter
