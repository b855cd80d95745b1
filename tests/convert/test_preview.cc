// Light, contact sheets, lit videos.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "contact_sheet.h"
#include "failure.h"
#include "relight.h"
#include "relit_video.h"

namespace normalcrafter::convert {
namespace {

/// One pixel with this vector.
struct Pixel {
  explicit Pixel(std::array<float, 3> vector) : vector(vector) {}
  NormalFrame frame() const {
    NormalFrame frame;
    frame.width = frame.height = 1;
    frame.samples = Samples::Float;
    frame.data = reinterpret_cast<const std::byte*>(vector.data());
    frame.stride = sizeof vector;
    return frame;
  }
  std::array<float, 3> vector;
};

int grey(std::array<float, 3> vector, const Light& light) {
  return std::to_integer<int>(relight(Pixel(vector).frame(), light).pixels[0]);
}

TEST(Light, HasUnitLengthAndTheAxesOfTheVectors) {
  const Light opengl = parse_light("0,3,4", "opengl");
  EXPECT_FLOAT_EQ(opengl[1], 0.6F);
  EXPECT_FLOAT_EQ(opengl[2], 0.8F);
  EXPECT_FLOAT_EQ(parse_light("0,3,4", "directx")[1], -0.6F);
  EXPECT_FLOAT_EQ(parse_light("0,3,4", "directx")[2], 0.8F);
  EXPECT_FLOAT_EQ(parse_light("0,3,4", "opencv")[2], -0.8F);
}

TEST(Light, ThatIsNoDirectionIsRefused) {
  for (const char* text : {"", "1,2", "0,0,0", "1,2,3,4", "a,b,c", "nan,0,1", "inf,0,0"})
    EXPECT_THROW(parse_light(text, "model"), Failure) << text;
}

TEST(Relit, SurfacesAreWhiteTowardsTheLightAndAmbientBehindIt) {
  const Light light = parse_light("0,0,1", "model");
  EXPECT_EQ(grey({0, 0, 1}, light), 255);
  EXPECT_EQ(grey({1, 0, 0}, light), 38);
  EXPECT_EQ(grey({0, 0, -1}, light), 38);
  EXPECT_EQ(grey({0, std::sqrt(0.75F), 0.5F}, light), 147);
}

TEST(Colours, AreTheElements) {
  const Picture picture = as_colours(Pixel({1, -1, 0}).frame());
  EXPECT_EQ(picture.pixels, (std::vector<std::byte>{std::byte{255}, std::byte{0}, std::byte{128}}));
}

Picture uniform(int width, int height, int value) {
  return {width, height,
          std::vector<std::byte>(static_cast<std::size_t>(3) * width * height,
                                 static_cast<std::byte>(value))};
}

TEST(Shrinking, AveragesWithoutLosingPixels) {
  Picture picture = uniform(4, 2, 0);
  for (std::size_t i = 0; i < 12; ++i) picture.pixels[i] = std::byte{200};
  const Picture small = shrink(picture, 2);
  EXPECT_EQ(small.width, 2);
  EXPECT_EQ(small.height, 1);
  for (const std::byte value : small.pixels) EXPECT_EQ(value, std::byte{100});
}

TEST(Shrinking, KeepsAConstantAtAnySize) {
  for (const int width : {1, 7, 240, 999}) {
    const Picture small = shrink(uniform(1001, 31, 77), width);
    EXPECT_EQ(small.width, width);
    for (const std::byte value : small.pixels) ASSERT_EQ(value, std::byte{77});
  }
  EXPECT_EQ(shrink(uniform(10, 10, 5), 20).width, 10);
}

TEST(Choice, KeepsFramesEvenlyHoweverLongTheClip) {
  for (const int length : {1, 5, 6, 11, 12, 13, 100, 1000}) {
    FrameChoice choice(6);
    std::vector<std::int64_t> kept;
    for (int i = 0; i < length; ++i) {
      const bool taken = choice.takes(i);
      std::erase_if(kept, [&](std::int64_t number) { return number % choice.stride() != 0; });
      if (taken) kept.push_back(i);
    }
    EXPECT_GE(kept.size(), std::min(length, 6)) << length;
    EXPECT_LE(kept.size(), 12U) << length;
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_EQ(kept[i], static_cast<std::int64_t>(i) * choice.stride());
  }
}

TEST(Spread, TakesTheFirstTheLastAndEvenlyBetween) {
  EXPECT_EQ(spread({0, 2, 4, 6, 8, 10, 12}, 3), (std::vector<std::int64_t>{0, 6, 12}));
  EXPECT_EQ(spread({5, 6}, 3), (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(spread({5, 6}, 1), (std::vector<std::int64_t>{5}));
}

TEST(Sheet, LaysPicturesOutInColumnsWithGaps) {
  const Picture sheet = lay_out({{uniform(2, 1, 1), uniform(2, 1, 2)}, {uniform(2, 1, 3)}});
  EXPECT_EQ(sheet.width, 4 + 2 + 4 + 2 + 4);
  EXPECT_EQ(sheet.height, 4 + 1 + 4 + 1 + 4);
  const auto at = [&](int x, int y) {
    return std::to_integer<int>(sheet.pixels[3 * (y * sheet.width + x)]);
  };
  EXPECT_EQ(at(4, 4), 1);
  EXPECT_EQ(at(5, 9), 2);
  EXPECT_EQ(at(10, 4), 3);
  EXPECT_EQ(at(10, 9), 255);
  EXPECT_EQ(at(3, 4), 255);
}

/// Sends noise, far faster than VP9 encodes it.
void write_noise(RelitVideo& video) {
  Picture noise = uniform(640, 580, 0);
  std::uint32_t state = 1;
  for (std::byte& value : noise.pixels)
    value = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  NormalFrame frame = noise.view();
  frame.height = 480;
  frame.rate_numerator = 25;
  for (int i = 0; i < 100; ++i) {
    frame.number = i;
    frame.time = i * 40'000'000;
    video.write(frame);
    frame.data += frame.stride;
  }
}

TEST(RelitVideos, OnAFullDiskEndInAFailureAndNotInWaiting) {
  gst_init(nullptr, nullptr);
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("relit-" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::create_symlink("/dev/full", folder / "lit.partial.webm");
  RelitVideo video((folder / "lit.webm").string(), parse_light("0,0,1", "model"));
  const auto status = [](const auto& body) {
    try {
      body();
    } catch (const Failure& failure) {
      return failure.status();
    }
    return Status::Done;
  };
  alarm(60);  // ends the program where it waits for ever
  EXPECT_EQ(status([&] { write_noise(video); }), Status::DiskFull);
  EXPECT_EQ(status([&] { video.finish(); }), Status::DiskFull);
  alarm(0);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace normalcrafter::convert
