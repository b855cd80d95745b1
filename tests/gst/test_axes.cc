// From one convention of axes to another.
#include "axes.h"

#include <gtest/gtest.h>

namespace normalcrafter {
namespace {

constexpr Flips kNone;
constexpr Flips kY{false, true, false};
constexpr Flips kZ{false, false, true};
constexpr Flips kBoth{false, true, true};

TEST(AxesPresets, AreRelativeToWhatTheModelStates) {
  EXPECT_EQ(flips_between("opengl", Axes::OpenGl), kNone);
  EXPECT_EQ(flips_between("opengl", Axes::DirectX), kY);
  EXPECT_EQ(flips_between("opengl", Axes::OpenCv), kBoth);
  EXPECT_EQ(flips_between("directx", Axes::OpenGl), kY);
  EXPECT_EQ(flips_between("directx", Axes::DirectX), kNone);
  EXPECT_EQ(flips_between("directx", Axes::OpenCv), kZ);
  EXPECT_EQ(flips_between("opencv", Axes::OpenGl), kBoth);
  EXPECT_EQ(flips_between("opencv", Axes::DirectX), kZ);
  EXPECT_EQ(flips_between("opencv", Axes::OpenCv), kNone);
}

TEST(AxesPresets, LeaveTheModelsOwnAloneWhateverItStates) {
  for (const char* stated : {"", "opengl", "of its own"}) {
    EXPECT_EQ(flips_between(stated, Axes::Model), kNone);
  }
}

TEST(AxesPresets, CannotBeReachedFromAnUnknownConvention) {
  EXPECT_EQ(flips_between("", Axes::OpenGl), std::nullopt);
  EXPECT_EQ(flips_between("of its own", Axes::DirectX), std::nullopt);
}

}  // namespace
}  // namespace normalcrafter
