#include <gtest/gtest.h>

#include "model/residency_plan.h"
#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Weights 1200, 150, 3000, 200; working sets 300, 1000, 1500, 2000; all in MiB.
ResidencyRequest request(Residency mode, std::uint64_t budget_mib) {
  ResidencyRequest result;
  result.mode = mode;
  result.budget = budget_mib * kMiB;
  result.session = 100 * kMiB;
  result.networks = {{{1200 * kMiB, 300 * kMiB},
                      {150 * kMiB, 1000 * kMiB},
                      {3000 * kMiB, 1500 * kMiB},
                      {200 * kMiB, 2000 * kMiB}}};
  result.unet_blocks = {{"in", 10 * kMiB},     {"down 0", 500 * kMiB}, {"mid", 900 * kMiB},
                        {"up 0", 1000 * kMiB}, {"up 1", 580 * kMiB},   {"out", 10 * kMiB}};
  return result;
}

std::string refusal(const ResidencyRequest& asked) {
  try {
    plan_residency(asked);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
    return error.what();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Upload kClip{Stage::Clip, {}, {}, {}};
const Upload kEncode{Stage::Encode, {}, {}, {}};
const Upload kUnet{Stage::Unet, {}, {}, {}};
const Upload kDecode{Stage::Decode, {}, {}, {}};

TEST(Residency, ResidentKeepsEveryNetworkAndUploadsEachOnce) {
  const ResidencyPlan plan = plan_residency(request(Residency::Resident, 8000));
  EXPECT_EQ(plan.stages[0].uploads, (std::vector<Upload>{kClip, kEncode, kUnet, kDecode}));
  for (const StagePlan& stage : plan.stages) {
    EXPECT_EQ(stage.on_device.size(), 4U);
    EXPECT_TRUE(stage.drop.empty());
    EXPECT_TRUE(stage.prefetch.empty());
    EXPECT_EQ(stage.uploads.empty(), stage.stage != Stage::Clip);
  }
  EXPECT_EQ(plan.peak(), (4550 + 2000 + 100) * kMiB);
}

TEST(Residency, ResidentFitsToTheByte) {
  auto asked = request(Residency::Resident, 4650);
  EXPECT_EQ(refusal(asked), "");
  --asked.budget;
  EXPECT_TRUE(mentions(refusal(asked), "use offload-mode=staged")) << refusal(asked);
}

TEST(Residency, StagedWithoutRoomHoldsOneNetworkAtATime) {
  // The UNet's stage alone: 3000 + 1500 + 100. CLIP beside the decoder would fit; see below.
  const ResidencyPlan plan = plan_residency(request(Residency::Staged, 4600));
  EXPECT_EQ(plan.stages[2].on_device, (std::vector<Stage>{Stage::Unet}));
  EXPECT_EQ(plan.stages[2].drop, (std::vector<Stage>{Stage::Encode}));
  EXPECT_TRUE(plan.stages[2].prefetch.empty());
  EXPECT_EQ(plan.stages[3].uploads, (std::vector<Upload>{kDecode}));
  EXPECT_EQ(plan.peak(), 4600 * kMiB);
}

TEST(Residency, TheNextNetworkComesEarlyExactlyWhereItFits) {
  const ResidencyPlan plan = plan_residency(request(Residency::Staged, 4600));
  EXPECT_EQ(plan.stages[0].prefetch, (std::vector<Upload>{kEncode}));  // 1600 + 150
  EXPECT_EQ(plan.stages[1].prefetch, (std::vector<Upload>{kUnet}));    // 1250 + 3000
  EXPECT_TRUE(plan.stages[2].prefetch.empty());                        // 4600 + 200
  EXPECT_EQ(plan.stages[3].prefetch, (std::vector<Upload>{kClip}));    // 2300 + 1200
  // What came early is not uploaded again.
  EXPECT_TRUE(plan.stages[0].uploads.empty());
  EXPECT_TRUE(plan.stages[1].uploads.empty());
  EXPECT_TRUE(plan.stages[2].uploads.empty());
  const ResidencyPlan roomy = plan_residency(request(Residency::Staged, 4800));
  EXPECT_EQ(roomy.stages[2].prefetch, (std::vector<Upload>{kDecode}));
  EXPECT_EQ(roomy.stages[2].peak, roomy.budget);
}

TEST(Residency, NothingComesEarlyBesideAWorkingSetThatIsNotKnown) {
  auto asked = request(Residency::Staged, 10000);
  asked.networks[1].measured = false;
  const ResidencyPlan plan = plan_residency(asked);
  EXPECT_EQ(plan.stages[0].prefetch, (std::vector<Upload>{kEncode}));
  EXPECT_TRUE(plan.stages[1].prefetch.empty());
  EXPECT_EQ(plan.stages[2].uploads, (std::vector<Upload>{kUnet}));
}

TEST(Residency, StreamedWalksTheUnetThroughTwoSlotsOfItsLargestBlock) {
  const ResidencyPlan plan = plan_residency(request(Residency::Streamed, 3600));
  EXPECT_EQ(plan.slots, (std::vector<std::uint64_t>{1000 * kMiB, 1000 * kMiB}));
  const StagePlan& unet = plan.stages[2];
  EXPECT_TRUE(unet.on_device.empty());
  EXPECT_EQ(unet.peak, 3600 * kMiB);  // 2 x 1000 + 1500 + 100
  // The two slots that are free came during the encoder; the others wait for their slot.
  EXPECT_EQ(plan.stages[1].prefetch,
            (std::vector<Upload>{{Stage::Unet, 0, 0, {}}, {Stage::Unet, 1, 1, {}}}));
  EXPECT_EQ(unet.uploads, (std::vector<Upload>{{Stage::Unet, 2, 0, 0},
                                               {Stage::Unet, 3, 1, 1},
                                               {Stage::Unet, 4, 0, 2},
                                               {Stage::Unet, 5, 1, 3}}));
  EXPECT_TRUE(plan.stages[3].drop.empty());
}

TEST(Residency, StreamedFitsWhereStagedDoesNot) {
  EXPECT_TRUE(mentions(refusal(request(Residency::Staged, 3000)), "use offload-mode=streamed"));
  EXPECT_EQ(refusal(request(Residency::Streamed, 3000)), "");
}

TEST(Residency, AUnetOfOneBlockHasOneSlot) {
  auto asked = request(Residency::Streamed, 5000);
  asked.unet_blocks.clear();
  const ResidencyPlan plan = plan_residency(asked);
  EXPECT_EQ(plan.slots, (std::vector<std::uint64_t>{3000 * kMiB}));
  EXPECT_EQ(plan.stages[2].peak, 4800 * kMiB);  // with the decoder's prefetch
}

TEST(Residency, WhatAnEarlierRoundNeededIsNoReasonToRefuse) {
  // It may have been one of larger pictures, or one that filled the device and failed.
  auto asked = request(Residency::Staged, 4600);
  asked.networks[2].working_set = 100000 * kMiB;
  const ResidencyPlan plan = plan_residency(asked);
  EXPECT_TRUE(plan.stages[2].prefetch.empty());
  EXPECT_EQ(plan.stages[1].prefetch, (std::vector<Upload>{kUnet}));
}

TEST(Residency, WeightsThatCannotFitNameStageAndSizeAndAskForAnotherTypeOrDevice) {
  const std::string text = refusal(request(Residency::Staged, 1299));
  EXPECT_TRUE(mentions(text, "the stage clip needs 1300 MiB")) << text;
  EXPECT_TRUE(mentions(text, "only 1299 MiB may be used")) << text;
  EXPECT_TRUE(mentions(text, "use dtype=float16 or another device")) << text;
}

TEST(Residency, NothingComesEarlyBeyondTheBudget) {
  for (const Residency mode : {Residency::Staged, Residency::Streamed}) {
    for (std::uint64_t budget = 0; budget < 10000; budget += 50) {
      const auto asked = request(mode, budget);
      if (!refusal(asked).empty()) {
        EXPECT_LT(budget, 3100U);
        continue;
      }
      for (const StagePlan& stage : plan_residency(asked).stages)
        EXPECT_TRUE(stage.prefetch.empty() || stage.peak <= asked.budget) << budget;
    }
  }
}

TEST(Residency, ThePlanReadsAsOneLineAStage) {
  EXPECT_EQ(to_string(plan_residency(request(Residency::Streamed, 3600))),
            "residency streamed: peak 3600 MiB of 3600 MiB, 2 slot(s) of 1000 MiB\n"
            "  clip: drop decode; upload nothing; on the device clip; meanwhile encode; peak 1750 "
            "MiB\n"
            "  encode: drop clip; upload nothing; on the device encode; meanwhile unet[0] in slot "
            "0, unet[1] in slot 1; peak 3250 MiB\n"
            "  unet: drop encode; upload unet[2] in slot 0 after [0], unet[3] in slot 1 after [1], "
            "unet[4] in slot 0 after [2], unet[5] in slot 1 after [3]; on the device nothing; "
            "meanwhile nothing; peak 3600 MiB\n"
            "  decode: drop nothing; upload decode; on the device decode; meanwhile clip; peak "
            "3500 MiB");
}

}  // namespace
}  // namespace normalcrafter
