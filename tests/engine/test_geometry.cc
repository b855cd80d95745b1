#include "stream/geometry.h"

#include <gtest/gtest.h>

namespace normalcrafter {
namespace {

TEST(Geometry, RoundsHalfToEvenAsTheReferenceDoes) {
  // round(5 * 0.5) = 2, round(7 * 0.5) = 4 in Python.
  EXPECT_EQ(processed_size({10, 5}, 5), (Size{5, 2}));
  EXPECT_EQ(processed_size({14, 7}, 7), (Size{7, 4}));
  EXPECT_EQ(processed_size({5, 10}, 5), (Size{2, 5}));
}

TEST(Geometry, ScalesTheLongerSideDownAndNeverUp) {
  EXPECT_EQ(processed_size({1920, 1080}, 1024), (Size{1024, 576}));
  EXPECT_EQ(processed_size({1080, 1920}, 1024), (Size{576, 1024}));
  EXPECT_EQ(processed_size({320, 240}, 1024), (Size{320, 240}));
  EXPECT_EQ(processed_size({1024, 1}, 64), (Size{64, 1}));
}

TEST(Geometry, KeepsAtLeastOnePixelASide) {
  EXPECT_EQ(processed_size({4000, 1}, 100), (Size{100, 1}));
  EXPECT_EQ(processed_size({1, 4000}, 1), (Size{1, 1}));
}

TEST(Geometry, PutsTheOddPixelOfPaddingAtTheBottomAndRight) {
  const FrameGeometry g = frame_geometry({321, 241}, 1024, 64, OutputSize::Original);
  EXPECT_EQ(g.padded, (Size{384, 256}));
  EXPECT_EQ(g.left, 31);  // 63 in all
  EXPECT_EQ(g.top, 7);    // 15 in all
}

TEST(Geometry, LeavesFittingFramesAlone) {
  const FrameGeometry g = frame_geometry({1024, 576}, 1024, 64, OutputSize::Original);
  EXPECT_EQ(g.padded, g.input);
  EXPECT_EQ(g.top, 0);
  EXPECT_EQ(g.left, 0);
  EXPECT_FALSE(g.resized());
}

TEST(Geometry, OutputsTheChosenSize) {
  EXPECT_EQ(frame_geometry({1920, 1080}, 1024, 64, OutputSize::Original).output,
            (Size{1920, 1080}));
  EXPECT_EQ(frame_geometry({1920, 1080}, 1024, 64, OutputSize::Processed).output,
            (Size{1024, 576}));
}

TEST(Geometry, PadsEverySizeToTheNextMultipleAroundTheMiddle) {
  for (int multiple : {1, 3, 64})
    for (int width = 1; width <= 140; ++width)
      for (int limit : {7, 64, 1000}) {
        const FrameGeometry g = frame_geometry({width, 5}, limit, multiple, OutputSize::Original);
        EXPECT_LE(g.processed.width, limit);
        EXPECT_EQ(g.padded.width % multiple, 0);
        const int border = g.padded.width - g.processed.width;
        EXPECT_GE(border, 0);
        EXPECT_LT(border, multiple);
        EXPECT_EQ(g.left, border / 2);
      }
}

}  // namespace
}  // namespace normalcrafter
