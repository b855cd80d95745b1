#include "pixel_formats.h"

#include <algorithm>
#include <array>
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

/// Words of 32 bits: 2 of alpha at the top, then three times 10.
struct TenBitOrder {
  int shifts[kChannels];
};

const TenBitOrder* ten_bit_order(GstVideoFormat format) {
  static constexpr TenBitOrder kRgb = {{0, 10, 20}};
  static constexpr TenBitOrder kBgr = {{20, 10, 0}};
  if (format == GST_VIDEO_FORMAT_RGB10A2_LE) return &kRgb;
  return format == GST_VIDEO_FORMAT_BGR10A2_LE ? &kBgr : nullptr;
}

bool has_limited_range(const GstVideoInfo& info) {
  return GST_VIDEO_INFO_COLORIMETRY(&info).range == GST_VIDEO_COLOR_RANGE_16_235;
}

/// Full range: the upper bits are repeated below, so that the greatest value stays that. Limited
/// range: black and white of 10 bits shifted are those of 16 bits.
void unpack_ten_bits(const GstVideoFrame& frame, const TenBitOrder& order, PackedFrame& packed) {
  const bool repeat = !has_limited_range(frame.info);
  for (int row = 0; row < packed.size.height; ++row) {
    const guint8* in = component_row(frame, 0, row);
    auto* out = reinterpret_cast<guint8*>(packed.samples.data() + row * packed.row_stride());
    for (int column = 0; column < packed.size.width; ++column, in += 4) {
      const guint32 word = GST_READ_UINT32_LE(in);
      for (const int shift : order.shifts) {
        const guint32 value = (word >> shift) & 0x3ff;
        const auto wide = static_cast<guint16>((value << 6) | (repeat ? value >> 4 : 0));
        std::memcpy(out, &wide, sizeof wide);
        out += sizeof wide;
      }
    }
  }
}

/// From 16..235 (and the like at 16 bits) to the full range; what lies outside is clipped.
int expand(int value, int shift, int greatest) {
  const int black = 16 << shift;
  const int span = 219 << shift;
  const auto scaled = (static_cast<std::int64_t>(value - black) * greatest * 2 + span) / (2 * span);
  return static_cast<int>(std::clamp<std::int64_t>(scaled, 0, greatest));
}

void expand_range(PackedFrame& packed) {
  if (packed.format == SampleFormat::U8) {
    std::array<std::byte, 256> table;
    for (int i = 0; i < 256; ++i) table[i] = static_cast<std::byte>(expand(i, 0, 255));
    for (std::byte& sample : packed.samples) sample = table[std::to_integer<int>(sample)];
    return;
  }
  for (std::size_t i = 0; i < packed.samples.size(); i += 2) {
    guint16 value;
    std::memcpy(&value, &packed.samples[i], sizeof value);
    value = static_cast<guint16>(expand(value, 8, 65535));
    std::memcpy(&packed.samples[i], &value, sizeof value);
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
  if (const TenBitOrder* order = ten_bit_order(GST_VIDEO_FRAME_FORMAT(&frame))) {
    unpack_ten_bits(frame, *order, packed);
  } else if (packed.format == SampleFormat::U8) {
    unpack_as<std::uint8_t, false>(frame, packed);
  } else if (is_swapped(frame.info.finfo)) {
    unpack_as<std::uint16_t, true>(frame, packed);
  } else {
    unpack_as<std::uint16_t, false>(frame, packed);
  }
  if (has_limited_range(frame.info)) expand_range(packed);
  return packed;
}

std::uint16_t AlphaPlane::at(int column, int row) const {
  const auto index = static_cast<std::size_t>(row) * size.width + column;
  if (format == SampleFormat::U8) {
    return static_cast<std::uint16_t>(std::to_integer<int>(samples[index]) * 257);
  }
  std::uint16_t value;
  std::memcpy(&value, &samples[2 * index], sizeof value);
  return value;
}

std::optional<AlphaPlane> unpack_alpha(const GstVideoFrame& frame) {
  if (!GST_VIDEO_FORMAT_INFO_HAS_ALPHA(frame.info.finfo)) return std::nullopt;
  AlphaPlane alpha;
  alpha.size = {GST_VIDEO_FRAME_WIDTH(&frame), GST_VIDEO_FRAME_HEIGHT(&frame)};
  // Two bits fit well into eight.
  const bool ten_bits = ten_bit_order(GST_VIDEO_FRAME_FORMAT(&frame)) != nullptr;
  alpha.format = ten_bits ? SampleFormat::U8 : sample_format(frame.info);
  const bool swapped = is_swapped(frame.info.finfo);
  alpha.samples.reserve(static_cast<std::size_t>(alpha.size.width) * alpha.size.height *
                        bytes_per_sample(alpha.format));
  const int step = GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, ten_bits ? 0 : kAlpha);
  for (int row = 0; row < alpha.size.height; ++row) {
    const guint8* in = component_row(frame, ten_bits ? 0 : kAlpha, row);
    for (int column = 0; column < alpha.size.width; ++column, in += step) {
      if (ten_bits) {
        alpha.samples.push_back(static_cast<std::byte>((in[3] >> 6) * 85));
      } else if (alpha.format == SampleFormat::U8) {
        alpha.samples.push_back(static_cast<std::byte>(in[0]));
      } else {
        alpha.samples.push_back(static_cast<std::byte>(in[swapped ? 1 : 0]));
        alpha.samples.push_back(static_cast<std::byte>(in[swapped ? 0 : 1]));
      }
    }
  }
  return alpha;
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

void pack_alpha(const AlphaPlane& alpha, GstVideoFrame& frame) {
  const Size size = {GST_VIDEO_FRAME_WIDTH(&frame), GST_VIDEO_FRAME_HEIGHT(&frame)};
  const bool bytes = sample_format(frame.info) == SampleFormat::U8;
  const bool swapped = is_swapped(frame.info.finfo);
  const int step = GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, kAlpha);
  for (int row = 0; row < size.height; ++row) {
    const int from_row = static_cast<int>((2L * row + 1) * alpha.size.height / (2L * size.height));
    guint8* out = component_row(frame, kAlpha, row);
    for (int column = 0; column < size.width; ++column, out += step) {
      const std::uint16_t value = alpha.at(
          static_cast<int>((2L * column + 1) * alpha.size.width / (2L * size.width)), from_row);
      if (bytes) {
        *out = static_cast<guint8>((value + 128) / 257);
      } else if (swapped) {
        Access<std::uint16_t, true>::store(out, value);
      } else {
        Access<std::uint16_t, false>::store(out, value);
      }
    }
  }
}

}  // namespace normalcrafter
