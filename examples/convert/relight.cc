#include "relight.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "failure.h"

namespace normalcrafter::convert {
namespace {

constexpr float kAmbient = 0.15F;

std::byte to_byte(float unit) {
  return static_cast<std::byte>(std::clamp(unit, 0.0F, 1.0F) * 255 + 0.5F);
}

template <typename Colour>
Picture paint(const NormalFrame& frame, Colour&& colour) {
  Picture picture{frame.width, frame.height, {}};
  picture.pixels.reserve(static_cast<std::size_t>(frame.width) * frame.height * 3);
  for (int y = 0; y < frame.height; ++y) {
    for (int x = 0; x < frame.width; ++x) {
      for (const float channel : colour(frame.vector(x, y)))
        picture.pixels.push_back(to_byte(channel));
    }
  }
  return picture;
}

}  // namespace

NormalFrame Picture::view() const {
  NormalFrame frame;
  frame.width = width;
  frame.height = height;
  frame.data = pixels.data();
  frame.stride = std::ptrdiff_t{3} * width;
  return frame;
}

Light parse_light(const std::string& text, const std::string& axes) {
  Light light{};
  int end = 0;
  const int read =
      std::sscanf(text.c_str(), "%f,%f,%f%n", light.data(), &light[1], &light[2], &end);
  const float length = std::hypot(light[0], light[1], light[2]);
  if (read != 3 || static_cast<std::size_t>(end) != text.size() || !(length > 1e-6F) ||
      !std::isfinite(length)) {
    throw Failure(Status::Usage,
                  "--light=" + text + ": not a direction X,Y,Z such as -0.4,0.5,0.75");
  }
  for (float& component : light) component /= length;
  if (axes == "directx" || axes == "opencv") light[1] = -light[1];
  if (axes == "opencv") light[2] = -light[2];
  return light;
}

Picture relight(const NormalFrame& frame, const Light& light) {
  return paint(frame, [&light](const std::array<float, 3>& n) {
    const float cosine = n[0] * light[0] + n[1] * light[1] + n[2] * light[2];
    const float grey = kAmbient + (1 - kAmbient) * std::max(cosine, 0.0F);
    return std::array<float, 3>{grey, grey, grey};
  });
}

Picture as_colours(const NormalFrame& frame) {
  return paint(frame, [](const std::array<float, 3>& n) {
    return std::array<float, 3>{n[0] / 2 + 0.5F, n[1] / 2 + 0.5F, n[2] / 2 + 0.5F};
  });
}

Picture shrink(const Picture& picture, int width) {
  if (picture.width <= width) return picture;
  const int height =
      std::max(1, static_cast<int>(std::lround(double(picture.height) * width / picture.width)));
  Picture small{width, height, {}};
  small.pixels.reserve(static_cast<std::size_t>(width) * height * 3);
  for (int y = 0; y < height; ++y) {
    const int top = y * picture.height / height;
    const int bottom = std::max(top + 1, (y + 1) * picture.height / height);
    for (int x = 0; x < width; ++x) {
      const int left = static_cast<int>(std::int64_t{x} * picture.width / width);
      const int right = static_cast<int>(std::int64_t{x + 1} * picture.width / width);
      const int count = (bottom - top) * (right - left);
      int sums[3] = {};
      for (int v = top; v < bottom; ++v) {
        for (int i = 3 * left; i < 3 * right; ++i)
          sums[i % 3] +=
              std::to_integer<int>(picture.pixels[std::size_t(v) * 3 * picture.width + i]);
      }
      for (const int sum : sums)
        small.pixels.push_back(static_cast<std::byte>((sum + count / 2) / count));
    }
  }
  return small;
}

}  // namespace normalcrafter::convert
