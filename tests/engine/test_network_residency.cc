// Residency plans carried out on a device that checks the order of things, and real networks on it.
#include <gtest/gtest.h>

#include "checking_device.h"
#include "engine_fixture.h"
#include "model/residency.h"

namespace normalcrafter {
namespace {

using test::CheckingDevice;
using test::TinyModel;

constexpr std::int64_t kUnetBlocks = 5;

/// Four networks of a parameter a block, each full of a value of its own.
class Networks : public ::testing::Test {
 protected:
  void SetUp() override {
    residency.emplace(std::make_unique<CheckingDevice>(books));
    add(Stage::Clip, {400});
    add(Stage::Encode, {100});
    add(Stage::Unet, {200, 500, 900, 300, 100});
    add(Stage::Decode, {150});
  }

  void add(Stage stage, const std::vector<std::int64_t>& sizes) {
    auto& places = parameters[static_cast<std::size_t>(stage)];
    HostSlab home(1 << 20);
    std::vector<ParameterBlock> blocks;
    for (const std::int64_t size : sizes) {
      const auto value = static_cast<double>(10 * static_cast<int>(stage)) + blocks.size();
      auto& place = places.emplace_back(
          std::make_unique<at::Tensor>(home.put(at::full({size}, value, at::kFloat))));
      blocks.push_back({"block", {}});
      blocks.back().parameters.add(*place);
    }
    residency->add(stage, std::move(home), blocks);
  }

  ResidencyPlan plan(Residency mode, std::uint64_t budget) {
    ResidencyRequest request;
    request.mode = mode;
    request.budget = books->budget = budget;
    for (std::size_t i = 0; i < kNetworkStages.size(); ++i)
      request.networks[i].weights = residency->bytes(kNetworkStages[i]);
    request.unet_blocks = residency->blocks(Stage::Unet);
    return plan_residency(request);
  }

  at::Tensor& parameter(Stage stage, int block = 0) {
    return *parameters[static_cast<std::size_t>(stage)][static_cast<std::size_t>(block)];
  }
  void expect_there(Stage stage, int block = 0) {
    const at::Tensor& seen = parameter(stage, block);
    ASSERT_TRUE(seen.defined()) << stage_name(stage) << " " << block;
    const float value = static_cast<float>(10 * static_cast<int>(stage) + block);
    EXPECT_TRUE(at::all(seen == value).item<bool>()) << stage_name(stage) << " " << block;
    books->use(seen);
  }
  /// What the stage's network does with its parameters.
  void compute(Stage stage) {
    BlockWalk* const walk = residency->walk();
    const int count = stage == Stage::Unet ? static_cast<int>(kUnetBlocks) : 1;
    for (int block = 0; block < count; ++block) {
      if (walk != nullptr) walk->enter_block(block);
      expect_there(stage, block);
      if (walk != nullptr) walk->leave_block(block);
    }
  }
  void round(const ResidencyPlan& plan, int windows = 1) {
    for (const Stage stage : kNetworkStages) {
      residency->enter(plan, stage);
      for (int i = 0; i < windows; ++i) compute(stage);
    }
  }

  std::shared_ptr<CheckingDevice::Books> books = std::make_shared<CheckingDevice::Books>();
  std::array<std::vector<std::unique_ptr<at::Tensor>>, kStageCount> parameters;
  std::optional<NetworkResidency> residency;  // before the places go
};

TEST_F(Networks, AreNowhereBeforeTheirStage) {
  for (const Stage stage : kNetworkStages) EXPECT_FALSE(parameter(stage).defined());
  EXPECT_EQ(books->allocated, 0U);
  EXPECT_EQ(books->pinned, 4);
}

TEST_F(Networks, ResidentAreUploadedOnceInAllRounds) {
  const ResidencyPlan all = plan(Residency::Resident, 1 << 20);
  for (int i = 0; i < 3; ++i) round(all);
  EXPECT_EQ(books->copies, 4);
  EXPECT_EQ(books->allocated, books->copied);
}

TEST_F(Networks, StagedComeEarlyWhereThereIsRoomAndNeverMoreThanTheBudget) {
  for (std::uint64_t budget = 9000; budget < 18000; budget += 256) {
    const ResidencyPlan staged = plan(Residency::Staged, budget);
    books->most = books->allocated;
    for (int i = 0; i < 2; ++i) round(staged);
    EXPECT_LE(books->most, staged.peak()) << budget;
    EXPECT_LE(books->most, budget);
    residency->drop_all();
  }
}

TEST_F(Networks, StagedWithoutRoomHoldOneAtATime) {
  const ResidencyPlan staged = plan(Residency::Staged, residency->bytes(Stage::Unet));
  round(staged);
  EXPECT_EQ(books->most, residency->bytes(Stage::Unet));
  residency->enter(staged, Stage::Unet);
  EXPECT_EQ(residency->on_device(), std::vector<Stage>{Stage::Unet});
}

TEST_F(Networks, StreamedWalkTwoSlotsInAllWindows) {
  for (const std::uint64_t budget : {7200, 8000, 20000}) {  // without, with some, with all prefetch
    const ResidencyPlan streamed = plan(Residency::Streamed, budget);
    books->most = 0;
    for (int i = 0; i < 2; ++i) round(streamed, 3);
    EXPECT_LE(books->most, streamed.peak());
    EXPECT_LT(books->most, residency->bytes(Stage::Unet));
    residency->drop_all();
    EXPECT_EQ(books->allocated, 0U);
  }
}

TEST_F(Networks, ABrokenWalkBeginsAnew) {
  const ResidencyPlan streamed = plan(Residency::Streamed, 7200);
  residency->enter(streamed, Stage::Unet);
  BlockWalk* const walk = residency->walk();
  for (int broken = 0; broken < kUnetBlocks; ++broken) {
    for (int block = 0; block <= broken; ++block) {
      walk->enter_block(block);
      expect_there(Stage::Unet, block);
      if (block < broken) walk->leave_block(block);
    }
    compute(Stage::Unet);
  }
  EXPECT_FALSE(parameter(Stage::Unet, 1).defined());
}

TEST_F(Networks, StagesInAnyOrderAndOfOtherPlansFindTheirParameters) {
  const ResidencyPlan plans[] = {plan(Residency::Staged, 20000), plan(Residency::Streamed, 20000),
                                 plan(Residency::Resident, 20000)};
  std::uint32_t random = 1;
  for (int i = 0; i < 300; ++i) {
    random = random * 1664525 + 1013904223;
    const Stage stage = kNetworkStages[random >> 30];
    residency->enter(plans[(random >> 20) % 3], stage);
    compute(stage);
    if (random % 7 == 0) residency->drop_prefetched();
    if (random % 11 == 0) residency->drop_all();
  }
}

TEST_F(Networks, LessRoomThanPlannedCostsThePrefetchOnly) {
  const ResidencyPlan staged = plan(Residency::Staged, 1 << 20);
  books->budget = residency->bytes(Stage::Unet) + 100;
  round(staged);
  books->budget = 100;
  EXPECT_THROW(residency->enter(staged, Stage::Unet), c10::OutOfMemoryError);
  books->budget = 1 << 20;
  residency->enter(staged, Stage::Unet);
  compute(Stage::Unet);
}

TEST_F(Networks, WhatIsDroppedIsGivenBackAndCanBeHadAgain) {
  const ResidencyPlan staged = plan(Residency::Staged, 1 << 20);
  round(staged);
  residency->drop_all();
  EXPECT_EQ(books->allocated, 0U);
  EXPECT_EQ(books->give_backs, 1);
  for (const Stage stage : kNetworkStages) EXPECT_FALSE(parameter(stage).defined());
  round(staged);
}

TEST_F(Networks, UploadsAreCountedByNetworkAndTimedWhenDone) {
  residency->enter(plan(Residency::Resident, 1 << 20), Stage::Clip);
  compute(Stage::Clip);
  const NetworkResidency::Uploads uploads = residency->uploads();
  for (const Stage stage : kNetworkStages) {
    EXPECT_EQ(uploads.bytes[static_cast<int>(stage)], residency->bytes(stage));
    EXPECT_EQ(uploads.seconds[static_cast<int>(stage)], 1);
  }
}

TEST_F(Networks, TheHomeIsUnpinnedWhenItGoes) {
  residency->enter(plan(Residency::Staged, 1 << 20), Stage::Clip);  // with a prefetch under way
  residency.reset();
  EXPECT_EQ(books->pinned, 0);
  EXPECT_EQ(books->allocated, 0U);
}

// A model whose parameters come and go.
std::shared_ptr<LoadedModel> open_on(const TinyModel& tiny,
                                     const std::shared_ptr<CheckingDevice::Books>& books) {
  return std::make_shared<LoadedModel>(tiny.options(), at::kCPU, at::kFloat, LogFunction{},
                                       std::make_unique<CheckingDevice>(books));
}

TEST(ModelOnADevice, EveryModeGivesTheBitsOfTheModelBuiltInPlace) {
  const TinyModel tiny;
  const auto frames = test::random_frames(9, {64, 64}, 3);
  const auto expected =
      test::stream(tiny.open(), frames, test::small_windows(OffloadMode::Resident));
  for (const OffloadMode mode :
       {OffloadMode::Staged, OffloadMode::Resident, OffloadMode::Streamed}) {
    const auto books = std::make_shared<CheckingDevice::Books>();
    const auto model = open_on(tiny, books);
    for (int clip = 0; clip < 2; ++clip) {
      const auto got = test::stream(model, frames, test::small_windows(mode));
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], expected[i]));
      EXPECT_EQ(books->allocated, 0U) << "offload-after gives all back";
    }
  }
}

TEST(ModelOnADevice, StreamedHoldsLessThanStagedAndStagedLessThanResident) {
  const TinyModel tiny;
  const auto frames = test::random_frames(6, {64, 64}, 3);
  std::vector<std::uint64_t> most;
  for (const OffloadMode mode :
       {OffloadMode::Streamed, OffloadMode::Staged, OffloadMode::Resident}) {
    const auto books = std::make_shared<CheckingDevice::Books>();
    books->budget = std::uint64_t{1} << 30;
    const auto model = open_on(tiny, books);
    test::stream(model, frames, test::small_windows(mode));
    most.push_back(books->most);
    const DeviceStats stats = model->device_stats();
    EXPECT_EQ(stats.memory.peak, books->most);
    EXPECT_GT(stats.upload_bytes[static_cast<int>(Stage::Unet)], 0U);
    EXPECT_NE(model->plan().find("residency "), std::string::npos);
  }
  EXPECT_LT(most[0], most[1]);
  EXPECT_LT(most[1], most[2]);
}

TEST(ModelOnADevice, TooSmallABudgetIsOneErrorThatNamesStageAndProperties) {
  const TinyModel tiny;
  const auto books = std::make_shared<CheckingDevice::Books>();
  const auto model = open_on(tiny, books);
  books->budget = 1000;
  testing::expect_error(
      ErrorCode::OutOfMemory,
      [&] {
        test::stream(model, test::random_frames(4, {64, 64}, 3),
                     test::small_windows(OffloadMode::Staged));
      },
      "the stage clip needs");
  EXPECT_EQ(books->allocated, 0U);
}

TEST(ModelOnADevice, CancellingAndFailingGiveTheDevicesMemoryBack) {
  const TinyModel tiny;
  for (const bool cancels : {false, true}) {
    const auto books = std::make_shared<CheckingDevice::Books>();
    const auto model = open_on(tiny, books);
    std::unique_ptr<Session> session;
    SessionCallbacks callbacks;
    callbacks.frame = [](const NormalView&) {};
    callbacks.progress = [&](const Progress& progress) {
      if (progress.stage != Stage::Unet) return;
      EXPECT_GT(books->allocated, 0U);
      if (!cancels) throw 1;
      session->cancel();
    };
    session = make_stream_session(model, test::small_windows(OffloadMode::Streamed), callbacks);
    const auto frames = test::random_frames(4, {64, 64}, 3);
    EXPECT_ANY_THROW({
      for (const auto& frame : frames) session->push(test::view_of(frame));
      session->finish();
    });
    EXPECT_EQ(books->allocated, 0U);
  }
}

TEST(ModelOnADevice, ACancelledLoadLeavesAModelThatLoadsLater) {
  const TinyModel tiny;
  const auto books = std::make_shared<CheckingDevice::Books>();
  const auto model = open_on(tiny, books);
  std::atomic<bool> cancelled = false;
  for (const std::uint64_t limit : {1000, 50000, 100000}) {
    cancelled = false;
    EXPECT_THROW(model->load(Checkpoint(cancelled),
                             [&](std::uint64_t done, std::uint64_t) { cancelled = done > limit; }),
                 Error);
  }
  cancelled = false;
  model->load(Checkpoint(cancelled), {});
  EXPECT_EQ(books->pinned, 4);
}

TEST(HostSlab, KeepsValuesSizesAndStridesAndRefusesMoreThanItsCapacity) {
  HostSlab slab(4 << 20);
  const at::Tensor image = at::rand({2, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor sliced = at::rand({6, 8}).narrow(1, 2, 3);
  const at::Tensor kept = slab.put(image);
  const at::Tensor packed = slab.put(sliced);
  EXPECT_TRUE(at::equal(kept, image));
  EXPECT_EQ(kept.strides(), image.strides());
  EXPECT_TRUE(at::equal(packed, sliced));
  EXPECT_EQ(slab.offset_of(packed) % HostSlab::kAlignment, 0U);
  EXPECT_THROW(slab.put(at::empty({1 << 20}, at::kFloat)), Error);
  slab.seal();
  EXPECT_TRUE(at::equal(kept, image));
}

}  // namespace
}  // namespace normalcrafter
