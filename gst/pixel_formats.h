// From GStreamer's pixel formats to the engine's packed RGB and back.
#pragma once

#include <gst/video/video.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "normalcrafter/frame.h"

/// The formats of both pads, as a caps string lists them. A format joins by being added here: its
/// layout is read from GstVideoFormatInfo.
#define NORMALCRAFTER_COMMON_FORMATS                                              \
  "RGB, BGR, RGBx, xRGB, BGRx, xBGR, RGBA, ARGB, BGRA, ABGR, GBR, GBRA, ARGB64, " \
  "RGBA64_LE, RGBA64_BE, ARGB64_LE, ARGB64_BE"
#define NORMALCRAFTER_OUTPUT_FORMATS "{ " NORMALCRAFTER_COMMON_FORMATS " }"
/// The 10-bit formats are input only: 10 bits hold a normal no better than the 16-bit ones.
#define NORMALCRAFTER_INPUT_FORMATS "{ " NORMALCRAFTER_COMMON_FORMATS ", RGB10A2_LE, BGR10A2_LE }"

namespace normalcrafter {

/// One picture's own copy: packed rows of R, G, B without padding.
struct PackedFrame {
  Size size;
  SampleFormat format = SampleFormat::U8;  ///< U8, or U16 in native endianness
  std::vector<std::byte> samples;

  std::ptrdiff_t row_stride() const;
  FrameView view() const { return {size, samples.data(), row_stride(), format}; }
};

/// One picture's opacity.
struct AlphaPlane {
  Size size;
  SampleFormat format = SampleFormat::U8;  ///< U8, or U16 in native endianness
  std::vector<std::byte> samples;

  /// 0 to 65535, whatever the format.
  std::uint16_t at(int column, int row) const;
};

/// U8 for the 8-bit formats, U16 for the deeper ones.
SampleFormat sample_format(const GstVideoInfo& info);

/// Copies a mapped frame of any format of NORMALCRAFTER_INPUT_FORMATS. 10-bit samples become 16-bit
/// ones, samples of limited range (16 to 235 of 255) full-range ones. Alpha is left out.
PackedFrame unpack(const GstVideoFrame& frame);

/// The frame's alpha, if its format has it.
std::optional<AlphaPlane> unpack_alpha(const GstVideoFrame& frame);

/// Writes a picture into a mapped frame of its size and of a format of NORMALCRAFTER_OUTPUT_FORMATS
/// with the same sample_format(). Alpha and padding become opaque.
void pack(const NormalView& picture, GstVideoFrame& frame);

/// Writes alpha into a frame whose format has it. A plane of another size is scaled by taking the
/// nearest sample.
void pack_alpha(const AlphaPlane& alpha, GstVideoFrame& frame);

}  // namespace normalcrafter
