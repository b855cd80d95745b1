// Which way axes point.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "sphere.h"

namespace normalcrafter::convert {
namespace {

/// What the judge finds in the sphere's own normals, sent through `model`.
template <typename Model>
std::array<AxisFinding, 3> judged(Model&& model) {
  const Sphere sphere{64};
  std::vector<float> vectors;
  for (int y = 0; y < sphere.size; ++y) {
    for (int x = 0; x < sphere.size; ++x) {
      for (const float value : model(sphere.normal(x, y).value_or(std::array<float, 3>{0, 0, 1})))
        vectors.push_back(value);
    }
  }
  NormalFrame frame;
  frame.width = frame.height = sphere.size;
  frame.samples = Samples::Float;
  frame.data = reinterpret_cast<const std::byte*>(vectors.data());
  frame.stride = std::ptrdiff_t{12} * sphere.size;
  AxisJudge judge(sphere);
  judge.add(frame);
  return judge.findings();
}

using Vector = std::array<float, 3>;

TEST(Axes, OfEachConventionAreRecognised) {
  EXPECT_EQ(convention(judged([](Vector n) { return n; })), "opengl");
  EXPECT_EQ(convention(judged([](Vector n) { return Vector{n[0], -n[1], n[2]}; })), "directx");
  EXPECT_EQ(convention(judged([](Vector n) { return Vector{n[0], -n[1], -n[2]}; })), "opencv");
}

TEST(Axes, OfNoNamedConventionAreClearAllTheSame) {
  const auto findings = judged([](Vector n) { return Vector{-n[0], n[1], n[2]}; });
  EXPECT_TRUE(is_clear(findings));
  EXPECT_EQ(convention(findings), std::nullopt);
  EXPECT_EQ(describe(0, findings[0]), "x: left (correlation 1.00)");
}

TEST(Axes, ThatAreSwappedAreNamedAndNotClear) {
  const auto findings = judged([](Vector n) { return Vector{n[1], n[0], n[2]}; });
  EXPECT_FALSE(is_clear(findings));
  EXPECT_EQ(describe(0, findings[0]), "x: up (correlation 1.00)");
}

TEST(Axes, AreFoundUnderNoiseAndAnOffset) {
  unsigned state = 1;
  const auto noise = [&state] {
    state = state * 1664525 + 1013904223;
    return static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
  };
  EXPECT_EQ(convention(judged([&](Vector n) {
              return Vector{n[0] * 0.5F + 0.3F + 0.3F * noise(), -n[1] + 0.5F * noise(),
                            n[2] + 0.2F * noise()};
            })),
            "directx");
}

TEST(Axes, OfAModelThatSeesNothingAreUnclear) {
  EXPECT_FALSE(is_clear(judged([](Vector) { return Vector{0, 0, 1}; })));
}

TEST(Sphere, HasUnitNormalsInsideAndNoneOutside) {
  const Sphere sphere{101};
  const auto middle = sphere.normal(50, 50);
  ASSERT_TRUE(middle);
  EXPECT_NEAR((*middle)[2], 1, 1e-6);
  EXPECT_FALSE(sphere.normal(0, 0));
  const auto upper = sphere.normal(50, 30);
  ASSERT_TRUE(upper);
  EXPECT_GT((*upper)[1], 0);
  EXPECT_NEAR(std::hypot((*upper)[0], (*upper)[1], (*upper)[2]), 1, 1e-5);
}

TEST(Sphere, IsLitFromTheUpperLeft) {
  const Picture picture = Sphere{64}.picture(0);
  const auto at = [&](int x, int y) {
    return std::to_integer<int>(picture.pixels[3 * (y * 64 + x)]);
  };
  EXPECT_GT(at(22, 22), at(42, 42));
}

}  // namespace
}  // namespace normalcrafter::convert
