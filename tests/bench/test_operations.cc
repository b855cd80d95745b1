// The counts against the figures that the architecture is known by, and Winograd's against a count
// by hand.
#include <gtest/gtest.h>

#include "architecture.h"
#include "operations.h"

namespace normalcrafter::bench {
namespace {

constexpr double kTera = 1e12;

Methods all_winograd() {
  return {.element_size = 4,
          .winograd = [](int, int) { return true; },
          .temporal_winograd = [](int) { return true; }};
}

struct KnownFigures {
  int width;
  int height;
  double unet;    // 10^12 operations, a window of 14 frames
  double encode;  // a frame
  double decode;  // a frame
};

class Published : public testing::TestWithParam<KnownFigures> {
 protected:
  Grid pictures(int frames) const { return {frames, GetParam().height, GetParam().width}; }
  ModelConfig config_ = Architecture().config();
  Operations direct_{Methods()};
};

TEST_P(Published, UNetTakesWhatIsKnown) {
  const Work work = direct_.unet(config_.unet, pictures(14).shrunk(8));
  EXPECT_NEAR(work.direct / kTera, GetParam().unet, 0.05);
}

TEST_P(Published, VaeTakesWhatIsKnown) {
  const Work encode = direct_.vae_encode(config_.vae, pictures(7));
  EXPECT_NEAR(encode.direct / kTera / 7, GetParam().encode, 0.005);
  const Work decode = direct_.vae_decode(config_.vae, pictures(4).shrunk(8));
  EXPECT_NEAR(decode.direct / kTera / 4, GetParam().decode, 0.005);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Published,
                         testing::Values(KnownFigures{512, 320, 10.7, 0.69, 1.89},
                                         KnownFigures{1024, 576, 44.8, 2.61, 6.94}));

TEST(Operations, ClipTakesWhatIsKnown) {
  const ModelConfig config = Architecture().config();
  const Work work = Operations(Methods()).clip(config.clip, 10);
  EXPECT_NEAR(work.direct / kTera / 10, 0.33, 0.005);
  EXPECT_LT(work.performed, work.direct) << "only the last layer's class token is needed";
  EXPECT_GT(work.performed, 0.96 * work.direct);
}

TEST(Operations, WinogradDoesAQuarterOfTheProductsOfWholeTiles) {
  const Work work = Operations(all_winograd()).convolution({3, 8, 16}, 64, 96);
  EXPECT_EQ(work.direct, 2.0 * 9 * 3 * 8 * 16 * 64 * 96);
  EXPECT_EQ(work.performed, work.direct / 4);
}

TEST(Operations, WinogradsLargeTilesDoStillFewerProducts) {
  Methods methods = all_winograd();
  methods.winograd_tile = [](const Grid&, int, int) { return 6; };
  const Work work = Operations(methods).convolution({3, 12, 18}, 64, 96);
  EXPECT_EQ(work.performed, 2.0 * 64 * (3 * 2 * 3) * 64 * 96);
}

TEST(Operations, WinogradDoesCutTilesWhole) {
  const Operations operations(all_winograd());
  EXPECT_EQ(operations.convolution({1, 5, 9}, 32, 32).performed,
            operations.convolution({1, 8, 12}, 32, 32).performed);
  EXPECT_EQ(operations.temporal_convolution({14, 2, 2}, 32).performed,
            operations.temporal_convolution({16, 2, 2}, 32).performed);
}

TEST(Operations, TemporalWinogradDoesHalfOfTheProductsOfWholeTiles) {
  const Work work = Operations(all_winograd()).temporal_convolution({8, 3, 5}, 64);
  EXPECT_EQ(work.direct, 2.0 * 3 * 8 * 3 * 5 * 64 * 64);
  EXPECT_EQ(work.performed, work.direct / 2);
}

TEST(Operations, AStridedConvolutionIsDirect) {
  const Work work = Operations(all_winograd()).convolution({1, 4, 4}, 32, 32, 2);
  EXPECT_EQ(work.performed, work.direct);
}

TEST(Operations, BytesAreInputWeightsAndOutputOnce) {
  const Operations operations({.element_size = 2});
  EXPECT_EQ(operations.convolution({2, 4, 4}, 32, 64).bytes,
            2.0 * (2 * 16 * 32 + 9 * 32 * 64 + 2 * 16 * 64));
  EXPECT_EQ(operations.convolution({2, 4, 4}, 32, 32, 2).bytes,
            2.0 * (2 * 64 * 32 + 9 * 32 * 32 + 2 * 16 * 32));
  EXPECT_EQ(operations.upsample_convolution({2, 4, 4}, 32).bytes,
            2.0 * (2 * 16 * 32 + 9 * 32 * 32 + 2 * 64 * 32));
  EXPECT_EQ(operations.temporal_convolution({2, 4, 4}, 32).bytes,
            2.0 * (2 * 16 * 32 + 3 * 32 * 32 + 2 * 16 * 32));
}

TEST(Operations, OneContextTokenNeedsNoQueries) {
  const Work work = Operations(Methods()).single_token_cross_attention(1000, 5, 1, 64, 32);
  EXPECT_EQ(work.direct, 2.0 * (2 * 1000 * 64 * 64 + 2 * 5 * 32 * 64 + 2 * 1000 * 64));
  EXPECT_EQ(work.performed, 2.0 * (32 * 64 + 64 * 64));
}

}  // namespace
}  // namespace normalcrafter::bench
