// What the fake engine must deliver for a whole clip, without its streaming.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <vector>

namespace normalcrafter {

/// The colour that test frame number `i` is filled with.
struct Colour {
  std::uint8_t r, g, b;
  friend bool operator==(const Colour&, const Colour&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Colour& c) {
    return out << '(' << int{c.r} << ' ' << int{c.g} << ' ' << int{c.b} << ')';
  }
};

inline Colour test_colour(int i) {
  return {static_cast<std::uint8_t>(31 * i + 5), static_cast<std::uint8_t>(17 * i + 3),
          static_cast<std::uint8_t>(11 * i + 1)};
}

/// Starts of the windows of a clip, the last one anchored at its end.
inline std::vector<int> window_starts(int frames, int window, int step) {
  const int last = std::max(frames, window) - window;
  std::vector<int> starts;
  for (int start = 0; start <= last; start += step) starts.push_back(start);
  if (starts.back() != last) starts.push_back(last);
  return starts;
}

inline Colour offline_colour(Colour in, int index, int frames, int window = 14, int step = 10) {
  int last = 0;
  for (const int start : window_starts(frames, window, step)) {
    if (start <= index) last = start;
  }
  return {static_cast<std::uint8_t>(255 - in.r), static_cast<std::uint8_t>(in.g + 7 * index),
          static_cast<std::uint8_t>(in.b + last)};
}

/// A clip whose first frame is test frame `first`.
inline std::vector<Colour> offline_clip(int first, int frames, int window = 14, int step = 10) {
  std::vector<Colour> clip;
  for (int i = 0; i < frames; ++i) {
    clip.push_back(offline_colour(test_colour(first + i), i, frames, window, step));
  }
  return clip;
}

}  // namespace normalcrafter
