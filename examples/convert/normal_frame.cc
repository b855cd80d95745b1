#include "normal_frame.h"

#include <cstring>

namespace normalcrafter::convert {

std::size_t bytes_per_pixel(Samples samples) {
  switch (samples) {
    case Samples::Rgb8:
      return 3;
    case Samples::Rgba8:
      return 4;
    case Samples::Rgba16Be:
      return 8;
    case Samples::Float:
      return 3 * sizeof(float);
  }
  return 0;
}

std::array<float, 3> NormalFrame::vector(int x, int y) const {
  const std::byte* pixel = row(y) + static_cast<std::size_t>(x) * bytes_per_pixel(samples);
  std::array<float, 3> vector{};
  if (samples == Samples::Float) {
    std::memcpy(vector.data(), pixel, sizeof vector);
    return vector;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const auto byte = [pixel](std::size_t at) { return std::to_integer<int>(pixel[at]); };
    const float unit = samples == Samples::Rgba16Be
                           ? static_cast<float>(byte(2 * i) * 256 + byte(2 * i + 1)) / 65535.0F
                           : static_cast<float>(byte(i)) / 255.0F;
    vector[i] = unit * 2 - 1;
  }
  return vector;
}

}  // namespace normalcrafter::convert
