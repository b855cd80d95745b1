// Views of the pixels that cross the engine's boundary. Nobody owns memory here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "normalcrafter/geometry.h"
#include "normalcrafter/options.h"

namespace normalcrafter {

/// One input picture: packed full-range RGB, 3 samples a pixel. Read during Session::push() only.
struct FrameView {
  Size size;
  const void* data = nullptr;
  std::ptrdiff_t row_stride = 0;           ///< bytes between rows
  SampleFormat format = SampleFormat::U8;  ///< U8 or U16 (native endian)
};

/// One delivered picture: packed [height, width, 3] in the session's output format; channels are
/// the vector's x, y, z. Valid during the callback only.
struct NormalView {
  std::uint64_t index = 0;  ///< number of the frame within its clip, from 0
  Size size;
  const void* data = nullptr;
  std::ptrdiff_t row_stride = 0;  ///< bytes between rows
  SampleFormat format = SampleFormat::U8;
};

}  // namespace normalcrafter
