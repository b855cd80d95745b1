#include "sphere.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace normalcrafter::convert {
namespace {

constexpr float kRadius = 0.7F;  // of half the picture's side
constexpr float kClear = 0.6F;   // least correlation of a component with its axis
constexpr float kWall = 0.35F;   // grey
constexpr const char* kNames[3] = {"x", "y", "z"};
constexpr const char* kPositive[3] = {"right", "up", "towards the viewer"};
constexpr const char* kNegative[3] = {"left", "down", "away from the viewer"};

/// A pixel's centre, from -1 to 1.
float unit(int at, int size) {
  return (static_cast<float>(at) + 0.5F) / static_cast<float>(size) * 2 - 1;
}

}  // namespace

std::optional<std::array<float, 3>> Sphere::normal(int x, int y) const {
  const float right = unit(x, size) / kRadius;
  const float up = -unit(y, size) / kRadius;
  const float rest = 1 - right * right - up * up;
  if (rest <= 0) return std::nullopt;
  return std::array<float, 3>{right, up, std::sqrt(rest)};
}

Picture Sphere::picture(float turn) const {
  const float angle = 2.1F + 0.3F * turn;
  const std::array<float, 3> light = {0.6F * std::cos(angle), 0.6F * std::sin(angle), 0.8F};
  Picture picture{size, size, {}};
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      float grey = kWall + 0.1F * unit(size - 1 - y, size);
      if (const auto n = normal(x, y)) {
        const float cosine = (*n)[0] * light[0] + (*n)[1] * light[1] + (*n)[2] * light[2];
        grey = 0.1F + 0.8F * std::max(cosine, 0.0F);
      }
      const auto byte = static_cast<std::byte>(std::lround(255 * grey));
      picture.pixels.insert(picture.pixels.end(), 3, byte);
    }
  }
  return picture;
}

void AxisJudge::add(const NormalFrame& frame) {
  for (int y = 0; y < frame.height; ++y) {
    for (int x = 0; x < frame.width; ++x) {
      const auto truth = sphere_.normal(x, y);
      if (!truth) continue;
      const auto found = frame.vector(x, y);
      ++count_;
      for (std::size_t i = 0; i < 3; ++i) {
        sum_found_[i] += found[i];
        square_found_[i] += double(found[i]) * found[i];
        sum_true_[i] += (*truth)[i];
        square_true_[i] += double((*truth)[i]) * (*truth)[i];
        for (std::size_t j = 0; j < 3; ++j) product_[i][j] += double(found[i]) * (*truth)[j];
      }
    }
  }
}

std::array<AxisFinding, 3> AxisJudge::findings() const {
  std::array<AxisFinding, 3> findings;
  const auto variance = [this](double sum, double square) {
    return square / count_ - sum / count_ * (sum / count_);
  };
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      const double together =
          product_[i][j] / count_ - sum_found_[i] / count_ * (sum_true_[j] / count_);
      const double both =
          variance(sum_found_[i], square_found_[i]) * variance(sum_true_[j], square_true_[j]);
      const auto correlation = static_cast<float>(both > 1e-12 ? together / std::sqrt(both) : 0);
      if (std::abs(correlation) > std::abs(findings[i].correlation))
        findings[i] = {static_cast<int>(j), correlation};
    }
  }
  return findings;
}

bool is_clear(const std::array<AxisFinding, 3>& findings) {
  for (int i = 0; i < 3; ++i) {
    const AxisFinding& finding = findings[static_cast<std::size_t>(i)];
    if (finding.axis != i || std::abs(finding.correlation) < kClear) return false;
  }
  return true;
}

std::optional<std::string> convention(const std::array<AxisFinding, 3>& findings) {
  if (!is_clear(findings) || findings[0].correlation < 0) return std::nullopt;
  const bool up = findings[1].correlation > 0;
  const bool towards = findings[2].correlation > 0;
  if (towards) return up ? "opengl" : "directx";
  return up ? std::nullopt : std::optional<std::string>("opencv");
}

std::string describe(int component, const AxisFinding& finding) {
  const auto* words = finding.correlation < 0 ? kNegative : kPositive;
  char text[96];
  std::snprintf(text, sizeof text, "%s: %s (correlation %.2f)", kNames[component],
                std::abs(finding.correlation) < kClear ? "unclear" : words[finding.axis],
                static_cast<double>(std::abs(finding.correlation)));
  return text;
}

}  // namespace normalcrafter::convert
