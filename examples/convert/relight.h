// Normals as a lit surface of plaster: errors show at a glance.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "normal_frame.h"

namespace normalcrafter::convert {

/// Packed 8-bit RGB.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::byte> pixels;

  NormalFrame view() const;
};

/// Towards the light, in the axes of the vectors that are lit.
using Light = std::array<float, 3>;

/// "X,Y,Z" with x right, y up and z towards the viewer, scaled to unit length and turned into the
/// axes that the element's property `axes` names. A Failure (Usage) if it is no direction.
Light parse_light(const std::string& text, const std::string& axes);

/// Grey: an ambient part and Lambert's cosine.
Picture relight(const NormalFrame& frame, const Light& light);

/// The normals as colours.
Picture as_colours(const NormalFrame& frame);

/// Scaled down to `width` pixels by averaging areas; a smaller picture is left as it is.
Picture shrink(const Picture& picture, int width);

}  // namespace normalcrafter::convert
