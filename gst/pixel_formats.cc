#include "pixel_formats.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace normalcrafter {
namespace {

constexpr int kChannels = 3;
constexpr int kAlpha = 3;  // GStreamer's component number

/// Reads and writes one sample of a component, whose bytes need not be aligned.
template <typename Sample, bool swapped>
struct Access {
  static Sample load(const guint8* bytes) {
    Sample value;
    std::memcpy(&value, bytes, sizeof value);
    return swap(value);
  }
  static void store(guint8* bytes, Sample value) {
    value = swap(value);
    std::memcpy(bytes, &value, sizeof value);
  }

 private:
  static Sample swap(Sample value) {
    if constexpr (swapped) return static_cast<Sample>((value << 8) | (value >> 8));
    return value;
  }
};

guint8* component_row(const GstVideoFrame& frame, int component, int row) {
  return static_cast<guint8*>(GST_VIDEO_FRAME_COMP_DATA(&frame, component)) +
         static_cast<std::ptrdiff_t>(row) * GST_VIDEO_FRAME_COMP_STRIDE(&frame, component);
}

template <typename Sample, bool swapped>
void unpack_as(const GstVideoFrame& frame, PackedFrame& packed) {
  using In = Access<Sample, swapped>;
  using Out = Access<Sample, false>;
  for (int row = 0; row < packed.size.height; ++row) {
    auto* out_row = reinterpret_cast<guint8*>(packed.samples.data() + row * packed.row_stride());
    for (int channel = 0; channel < kChannels; ++channel) {
      const guint8* in = component_row(frame, channel, row);
      const int step = GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, channel);
      guint8* out = out_row + channel * sizeof(Sample);
      for (int column = 0; column < packed.size.width; ++column) {
        Out::store(out, In::load(in));
        in += step;
        out += kChannels * sizeof(Sample);
      }
    }
  }
}

template <typename Sample, bool swapped>
void pack_as(const NormalView& picture, GstVideoFrame& frame) {
  using In = Access<Sample, false>;
  using Out = Access<Sample, swapped>;
  for (int row = 0; row < picture.size.height; ++row) {
    const auto* in_row = static_cast<const guint8*>(picture.data) + row * picture.row_stride;
    for (int channel = 0; channel < kChannels; ++channel) {
      const guint8* in = in_row + channel * sizeof(Sample);
      guint8* out = component_row(frame, channel, row);
      const int step = GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, channel);
      for (int column = 0; column < picture.size.width; ++column) {
        Out::store(out, In::load(in));
        in += kChannels * sizeof(Sample);
        out += step;
      }
    }
  }
}

/// Sets alpha and the padding sample of RGBx and its like: 0xff in every byte means opaque at any
/// depth. Where they lie does not matter, since the colours are written afterwards.
void make_opaque(GstVideoFrame& frame, Size size) {
  const bool planar_alpha = GST_VIDEO_FRAME_N_PLANES(&frame) > kAlpha;
  const int component = planar_alpha ? kAlpha : 0;
  const int pixel_bytes = GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, component);
  if (!planar_alpha && GST_VIDEO_FRAME_N_PLANES(&frame) > 1) return;
  for (int row = 0; row < size.height; ++row) {
    guint8* bytes = planar_alpha ? component_row(frame, kAlpha, row)
                                 : static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0)) +
                                       static_cast<std::ptrdiff_t>(row) *
                                           GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0);
    std::memset(bytes, 0xff, static_cast<std::size_t>(size.width) * pixel_bytes);
  }
}

bool is_swapped(const GstVideoFormatInfo* format) {
  // ARGB64 has no endianness of its own: it is the machine's.
  if (GST_VIDEO_FORMAT_INFO_FORMAT(format) == GST_VIDEO_FORMAT_ARGB64) return false;
  const bool little = GST_VIDEO_FORMAT_INFO_IS_LE(format);
  return little != (std::endian::native == std::endian::little);
}

int bytes_per_sample(SampleFormat format) {
  return format == SampleFormat::U8 ? 1 : 2;
}

}  // namespace

std::ptrdiff_t PackedFrame::row_stride() const {
  return static_cast<std::ptrdiff_t>(size.width) * kChannels * bytes_per_sample(format);
}

SampleFormat sample_format(const GstVideoInfo& info) {
  return GST_VIDEO_INFO_COMP_DEPTH(&info, 0) > 8 ? SampleFormat::U16 : SampleFormat::U8;
}

PackedFrame unpack(const GstVideoFrame& frame) {
  PackedFrame packed;
  packed.size = {GST_VIDEO_FRAME_WIDTH(&frame), GST_VIDEO_FRAME_HEIGHT(&frame)};
  packed.format = sample_format(frame.info);
  packed.samples.resize(static_cast<std::size_t>(packed.row_stride()) * packed.size.height);
  if (packed.format == SampleFormat::U8) {
    unpack_as<std::uint8_t, false>(frame, packed);
  } else if (is_swapped(frame.info.finfo)) {
    unpack_as<std::uint16_t, true>(frame, packed);
  } else {
    unpack_as<std::uint16_t, false>(frame, packed);
  }
  return packed;
}

void pack(const NormalView& picture, GstVideoFrame& frame) {
  make_opaque(frame, picture.size);
  if (picture.format == SampleFormat::U8) {
    pack_as<std::uint8_t, false>(picture, frame);
  } else if (is_swapped(frame.info.finfo)) {
    pack_as<std::uint16_t, true>(picture, frame);
  } else {
    pack_as<std::uint16_t, false>(picture, frame);
  }
}

}  // namespace normalcrafter
