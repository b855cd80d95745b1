// How a frame's size maps to the size that the networks work at.
#pragma once

#include <algorithm>
#include <cmath>

namespace normalcrafter {

/// Width and height in pixels.
struct Size {
  int width = 0;
  int height = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

/// The size a frame is processed at: scaled down so that its longer side is at most
/// `max_resolution`, never enlarged, each side at least 1. Sides round half to even, as Python's
/// round() does, because that is what the reference uses.
inline Size processed_size(Size input, int max_resolution) {
  const double scale =
      std::min(1.0, static_cast<double>(max_resolution) / std::max(input.width, input.height));
  const auto side = [scale](int pixels) {
    return std::max(1, static_cast<int>(std::nearbyint(pixels * scale)));
  };
  return {side(input.width), side(input.height)};
}

}  // namespace normalcrafter
