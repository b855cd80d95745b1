// A picture whose normals are known, and what a model makes of its axes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "normal_frame.h"
#include "relight.h"

namespace normalcrafter::convert {

/// A sphere of plaster before a wall, lit from the upper left; `turn` from 0 to 1 moves the light a
/// little, since a video's frames differ.
struct Sphere {
  int size = 256;  ///< pixels of the square picture

  Picture picture(float turn) const;
  /// The surface at a pixel, x to the right, y up, z to the viewer; nothing outside the sphere.
  std::optional<std::array<float, 3>> normal(int x, int y) const;
};

/// What a component of the vectors follows.
struct AxisFinding {
  int axis = 0;           ///< 0, 1, 2: what it goes with most is x, y, z
  float correlation = 0;  ///< with it, from -1 to 1; the sign is the axis' direction
};

/// Correlations over the sphere's pixels, of many frames.
class AxisJudge {
 public:
  explicit AxisJudge(const Sphere& sphere) : sphere_(sphere) {}
  /// The vectors of a picture of the sphere.
  void add(const NormalFrame& frame);
  std::array<AxisFinding, 3> findings() const;

 private:
  Sphere sphere_;
  double count_ = 0;
  std::array<double, 3> sum_found_{};
  std::array<double, 3> square_found_{};
  std::array<double, 3> sum_true_{};
  std::array<double, 3> square_true_{};
  std::array<std::array<double, 3>, 3> product_{};
};

/// Each component follows its own axis clearly.
bool is_clear(const std::array<AxisFinding, 3>& findings);

/// "opengl", "directx" or "opencv", as the element's property `axes` has them; nothing for others.
std::optional<std::string> convention(const std::array<AxisFinding, 3>& findings);

/// "x: right (correlation 0.97)": one for each component.
std::string describe(int component, const AxisFinding& finding);

}  // namespace normalcrafter::convert
