// A part of a clip, as the options --start and --frames take it.
#pragma once

#include <cstdint>
#include <string>

namespace normalcrafter::convert {

/// Frames, or time in nanoseconds.
struct Amount {
  enum class Unit { Frames, Nanoseconds };
  Unit unit = Unit::Frames;
  std::int64_t value = 0;  ///< >= 0
  friend bool operator==(const Amount&, const Amount&) = default;
};

/// "250" is a number of frames; "2.5s", "800ms", "3m", "1h", "1:02.5" and "1:00:02" are times. A
/// Failure (Usage) for anything else; it names `option`.
Amount parse_amount(const std::string& option, const std::string& text);

/// As parse_amount() reads it.
std::string to_string(const Amount& amount);

}  // namespace normalcrafter::convert
