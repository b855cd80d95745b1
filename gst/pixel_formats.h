// From GStreamer's pixel formats to the engine's packed RGB and back.
#pragma once

#include <gst/video/video.h>

#include <cstddef>
#include <vector>

#include "normalcrafter/frame.h"

/// The formats of both pads, as a caps string lists them. A format joins by being added here: its
/// layout is read from GstVideoFormatInfo.
#define NORMALCRAFTER_FORMATS                                                       \
  "{ RGB, BGR, RGBx, xRGB, BGRx, xBGR, RGBA, ARGB, BGRA, ABGR, GBR, GBRA, ARGB64, " \
  "RGBA64_LE, RGBA64_BE, ARGB64_LE, ARGB64_BE }"

namespace normalcrafter {

/// One picture's own copy: packed rows of R, G, B without padding.
struct PackedFrame {
  Size size;
  SampleFormat format = SampleFormat::U8;  ///< U8, or U16 in native endianness
  std::vector<std::byte> samples;

  std::ptrdiff_t row_stride() const;
  FrameView view() const { return {size, samples.data(), row_stride(), format}; }
};

/// U8 for the 8-bit formats, U16 for the deeper ones.
SampleFormat sample_format(const GstVideoInfo& info);

/// Copies a mapped frame of any format of NORMALCRAFTER_FORMATS. Alpha is left out.
PackedFrame unpack(const GstVideoFrame& frame);

/// Writes a picture into a mapped frame of its size and of a format with the same sample_format().
/// Alpha and padding become opaque.
void pack(const NormalView& picture, GstVideoFrame& frame);

}  // namespace normalcrafter
