// A frame that came out of the element, as the writers see it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace normalcrafter::convert {

/// How the vectors are stored. Integers hold round(MAX * (n / 2 + 1/2)).
enum class Samples {
  Rgb8,      ///< 3 bytes
  Rgba8,     ///< 4 bytes
  Rgba16Be,  ///< 4 big-endian 16-bit integers: PNG's order
  Float,     ///< 3 floats, -1 to 1, native order
};

std::size_t bytes_per_pixel(Samples samples);

/// Someone else's pixels, for the time of a call.
struct NormalFrame {
  int width = 0;
  int height = 0;
  Samples samples = Samples::Rgb8;
  const std::byte* data = nullptr;
  std::ptrdiff_t stride = 0;         ///< bytes from a row to the next
  std::int64_t number = 0;           ///< within the clip that is written, from 0
  std::optional<std::int64_t> time;  ///< in nanoseconds from the source's beginning
  int rate_numerator = 0;            ///< frames a second; 0: not known
  int rate_denominator = 1;

  const std::byte* row(int y) const { return data + y * stride; }
  /// x, y and z, each from -1 to 1.
  std::array<float, 3> vector(int x, int y) const;
};

/// Takes a clip's frames in order.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A Failure if it cannot be written.
  virtual void write(const NormalFrame& frame) = 0;
  /// No more frames come: completes what is open under its partial name, so that it can be read.
  virtual void finish() {}
};

}  // namespace normalcrafter::convert
