// Every format against GStreamer's own conversion functions, with odd sizes and padded rows.
#include "pixel_formats.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "gst_ptr.h"

namespace normalcrafter {
namespace {

struct Layout {
  const char* format;
  int width, height, padding;
};

constexpr auto kMapForBoth = static_cast<GstMapFlags>(
    static_cast<int>(GST_MAP_READWRITE) | static_cast<int>(GST_VIDEO_FRAME_MAP_FLAG_NO_REF));

const std::vector<const char*> kOutputFormats = {
    "RGB",  "BGR", "RGBx", "xRGB",   "BGRx",      "xBGR",      "RGBA",      "ARGB",     "BGRA",
    "ABGR", "GBR", "GBRA", "ARGB64", "RGBA64_LE", "RGBA64_BE", "ARGB64_LE", "ARGB64_BE"};
const std::vector<const char*> kTenBitFormats = {"RGB10A2_LE", "BGR10A2_LE"};

std::vector<Layout> layouts(const std::vector<const char*>& formats) {
  std::vector<Layout> all;
  for (const char* format : formats) {
    for (const int padding : {0, 5}) {
      all.push_back({format, 1, 1, padding});
      all.push_back({format, 7, 3, padding});
      all.push_back({format, 8, 2, padding});
    }
  }
  return all;
}

class PixelFormat : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    const auto [format, width, height, padding] = GetParam();
    gst_video_info_set_format(&info_, gst_video_format_from_string(format), width, height);
    if (padding > 0) {
      GstVideoAlignment align;
      gst_video_alignment_reset(&align);
      align.padding_left = align.padding_right = padding;
      align.padding_top = padding;
      gst_video_info_align(&info_, &align);
    }
    buffer_.reset(gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&info_), nullptr));
    gst_buffer_memset(buffer_.get(), 0, 0x5a, GST_VIDEO_INFO_SIZE(&info_));
    gsize offsets[GST_VIDEO_MAX_PLANES];
    gint strides[GST_VIDEO_MAX_PLANES];
    for (guint i = 0; i < GST_VIDEO_MAX_PLANES; ++i) {
      offsets[i] = info_.offset[i];
      strides[i] = info_.stride[i];
    }
    gst_buffer_add_video_meta_full(buffer_.get(), GST_VIDEO_FRAME_FLAG_NONE,
                                   GST_VIDEO_INFO_FORMAT(&info_), width, height,
                                   GST_VIDEO_INFO_N_PLANES(&info_), offsets, strides);
    ASSERT_TRUE(gst_video_frame_map(&frame_, &info_, buffer_.get(), kMapForBoth));
  }
  void TearDown() override { gst_video_frame_unmap(&frame_); }

  bool wide() const { return GST_VIDEO_INFO_COMP_DEPTH(&info_, 0) > 8; }
  bool has_alpha() const { return GST_VIDEO_INFO_HAS_ALPHA(&info_); }

  void fill_with_rubbish() {
    auto* bytes = static_cast<guint8*>(frame_.map[0].data);
    for (gsize b = 0; b < frame_.map[0].size; ++b) bytes[b] = static_cast<guint8>(b * 37 + 11);
  }

  /// One row as A, R, G, B samples of 16 bits, by GStreamer's unpack function.
  std::vector<guint16> reference_row(int y) {
    const GstVideoFormatInfo* finfo = info_.finfo;
    const int width = GST_VIDEO_INFO_WIDTH(&info_);
    std::vector<guint16> row(4 * static_cast<std::size_t>(width));
    std::vector<guint8> narrow(row.size());
    const bool deep = finfo->unpack_format == GST_VIDEO_FORMAT_ARGB64;
    gpointer target = deep ? static_cast<gpointer>(row.data()) : narrow.data();
    finfo->unpack_func(finfo, GST_VIDEO_PACK_FLAG_NONE, target, frame_.data, info_.stride, 0, y,
                       width);
    if (!deep) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = narrow[i];
    }
    return row;
  }

  GstVideoInfo info_;
  GstVideoFrame frame_;
  BufferPtr buffer_;
};

class InputFormat : public PixelFormat {};
class OutputFormat : public PixelFormat {};

TEST_P(InputFormat, IsUnpackedAsGStreamerDoesIt) {
  fill_with_rubbish();
  const PackedFrame packed = unpack(frame_);
  ASSERT_EQ(packed.format == SampleFormat::U16, wide());
  for (int y = 0; y < info_.height; ++y) {
    const std::vector<guint16> expected = reference_row(y);
    const std::byte* row = packed.samples.data() + y * packed.row_stride();
    for (int x = 0; x < info_.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        guint16 sample = 0;
        std::memcpy(&sample, row + (3 * x + c) * (wide() ? 2 : 1), wide() ? 2 : 1);
        EXPECT_EQ(sample, expected[4 * x + 1 + c]) << x << ", " << y << ", " << c;
      }
    }
  }
}

TEST_P(OutputFormat, IsPackedSoThatGStreamerReadsItBackOpaque) {
  std::vector<guint16> wide_samples;
  std::vector<guint8> narrow_samples;
  const int stride = info_.width * 3 + 2;
  for (int i = 0; i < stride * info_.height; ++i) {
    wide_samples.push_back(static_cast<guint16>(i * 4099 + 77));
    narrow_samples.push_back(static_cast<guint8>(i * 29 + 3));
  }
  NormalView view;
  view.size = {info_.width, info_.height};
  view.data = wide() ? static_cast<const void*>(wide_samples.data()) : narrow_samples.data();
  view.row_stride = stride * (wide() ? 2 : 1);
  view.format = wide() ? SampleFormat::U16 : SampleFormat::U8;
  pack(view, frame_);
  const int opaque = wide() ? 65535 : 255;
  for (int y = 0; y < info_.height; ++y) {
    const std::vector<guint16> row = reference_row(y);
    for (int x = 0; x < info_.width; ++x) {
      EXPECT_EQ(row[4 * x], opaque);
      for (int c = 0; c < 3; ++c) {
        const int i = y * stride + 3 * x + c;
        EXPECT_EQ(row[4 * x + 1 + c], wide() ? wide_samples[i] : narrow_samples[i]);
      }
    }
  }
}

TEST_P(OutputFormat, WritesNothingOutsideThePicture) {
  if (GetParam().padding == 0) return;  // there is no outside
  std::vector<guint16> samples(3 * static_cast<std::size_t>(info_.width) * info_.height, 0x1212);
  NormalView view{0,
                  {info_.width, info_.height},
                  samples.data(),
                  info_.width * (wide() ? 6 : 3),
                  wide() ? SampleFormat::U16 : SampleFormat::U8};
  pack(view, frame_);
  // The rows above the picture and the margin left of its first row.
  const auto* bytes = static_cast<const guint8*>(frame_.map[0].data);
  for (gsize b = 0; b < info_.offset[0]; ++b) ASSERT_EQ(bytes[b], 0x5a) << "byte " << b;
  const guint8* right = bytes + info_.offset[0] +
                        static_cast<gsize>(info_.width) * GST_VIDEO_INFO_COMP_PSTRIDE(&info_, 0);
  EXPECT_EQ(*right, 0x5a);
}

TEST_P(InputFormat, AlphaIsReadAsGStreamerDoesIt) {
  fill_with_rubbish();
  const auto alpha = unpack_alpha(frame_);
  ASSERT_EQ(alpha.has_value(), has_alpha());
  if (!alpha) return;
  for (int y = 0; y < info_.height; ++y) {
    const std::vector<guint16> row = reference_row(y);
    for (int x = 0; x < info_.width; ++x) {
      int expected = wide() ? row[4 * x] : row[4 * x] * 257;
      // GStreamer does not scale two bits up: its opaque is 49200.
      if (GST_VIDEO_INFO_COMP_DEPTH(&info_, 3) == 2) expected = (expected >> 14) * 21845;
      EXPECT_EQ(alpha->at(x, y), expected) << x << ", " << y;
    }
  }
}

TEST_P(OutputFormat, KeepsAnAlphaThatItIsGivenAndItsColours) {
  if (!has_alpha()) return;
  AlphaPlane alpha{{info_.width, info_.height}, SampleFormat::U8, {}};
  for (int i = 0; i < info_.width * info_.height; ++i) {
    alpha.samples.push_back(static_cast<std::byte>(i * 41 + 9));
  }
  fill_with_rubbish();
  const std::vector<guint16> before = reference_row(0);
  pack_alpha(alpha, frame_);
  const std::vector<guint16> after = reference_row(0);
  for (int x = 0; x < info_.width; ++x) {
    EXPECT_EQ(after[4 * x], alpha.at(x, 0) / (wide() ? 1 : 257));
    for (int c = 1; c < 4; ++c) EXPECT_EQ(after[4 * x + c], before[4 * x + c]);
  }
}

std::string name_of(const testing::TestParamInfo<Layout>& info) {
  return std::string(info.param.format) + "_" + std::to_string(info.param.width) + "x" +
         std::to_string(info.param.height) + "_" + std::to_string(info.param.padding);
}

INSTANTIATE_TEST_SUITE_P(Both, InputFormat, testing::ValuesIn(layouts(kOutputFormats)), name_of);
INSTANTIATE_TEST_SUITE_P(TenBits, InputFormat, testing::ValuesIn(layouts(kTenBitFormats)), name_of);
INSTANTIATE_TEST_SUITE_P(Both, OutputFormat, testing::ValuesIn(layouts(kOutputFormats)), name_of);

/// One row of one format, mapped.
class OneRow {
 public:
  OneRow(const char* format, int width, std::vector<guint8> bytes,
         GstVideoColorRange range = GST_VIDEO_COLOR_RANGE_0_255)
      : bytes_(std::move(bytes)) {
    gst_video_info_set_format(&info_, gst_video_format_from_string(format), width, 1);
    info_.colorimetry.range = range;
    bytes_.resize(GST_VIDEO_INFO_SIZE(&info_));
    buffer_.reset(gst_buffer_new_wrapped_full(GST_MEMORY_FLAG_ZERO_PADDED, bytes_.data(),
                                              bytes_.size(), 0, bytes_.size(), nullptr, nullptr));
    EXPECT_TRUE(gst_video_frame_map(&frame_, &info_, buffer_.get(), kMapForBoth));
  }
  ~OneRow() { gst_video_frame_unmap(&frame_); }
  GstVideoFrame& frame() { return frame_; }
  const std::vector<guint8>& bytes() const { return bytes_; }

 private:
  std::vector<guint8> bytes_;
  GstVideoInfo info_;
  BufferPtr buffer_;
  GstVideoFrame frame_;
};

std::vector<int> samples_of(const PackedFrame& packed) {
  std::vector<int> samples;
  const bool wide = packed.format == SampleFormat::U16;
  for (std::size_t i = 0; i < packed.samples.size(); i += wide ? 2 : 1) {
    guint16 value = std::to_integer<guint16>(packed.samples[i]);
    if (wide) std::memcpy(&value, &packed.samples[i], sizeof value);
    samples.push_back(value);
  }
  return samples;
}

TEST(PixelFormats, LimitedRangeIsExpandedAndClipped) {
  OneRow row("RGB", 3, {0, 16, 17, 125, 126, 128, 234, 235, 255}, GST_VIDEO_COLOR_RANGE_16_235);
  // 255 * (v - 16) / 219, rounded.
  EXPECT_EQ(samples_of(unpack(row.frame())),
            (std::vector<int>{0, 0, 1, 127, 128, 130, 254, 255, 255}));
}

TEST(PixelFormats, LimitedRangeOfSixteenBitsIsExpandedInBothEndians) {
  // Black and white of 16 bits are those of 8 bits times 256.
  OneRow little("RGBA64_LE", 1, {0x00, 0x10, 0x00, 0xeb, 0x00, 0x7d, 0, 0},
                GST_VIDEO_COLOR_RANGE_16_235);
  EXPECT_EQ(samples_of(unpack(little.frame())), (std::vector<int>{0, 65535, 32618}));
  OneRow big("RGBA64_BE", 1, {0x10, 0x00, 0xeb, 0x00, 0x7d, 0x00, 0, 0},
             GST_VIDEO_COLOR_RANGE_16_235);
  EXPECT_EQ(samples_of(unpack(big.frame())), (std::vector<int>{0, 65535, 32618}));
}

TEST(PixelFormats, LimitedRangeOfTenBitsReachesBlackAndWhite) {
  const guint32 word = 64U | (940U << 10) | (502U << 20);
  OneRow row("RGB10A2_LE", 1,
             {static_cast<guint8>(word), static_cast<guint8>(word >> 8),
              static_cast<guint8>(word >> 16), static_cast<guint8>(word >> 24)},
             GST_VIDEO_COLOR_RANGE_16_235);
  EXPECT_EQ(samples_of(unpack(row.frame())), (std::vector<int>{0, 65535, 32768}));
}

TEST(PixelFormats, AlphaOfSixteenBitsIsRoundedToEight) {
  AlphaPlane alpha{{3, 1}, SampleFormat::U16, {}};
  for (const guint16 value : {guint16{128}, guint16{129}, guint16{65535}}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    alpha.samples.insert(alpha.samples.end(), bytes, bytes + 2);
  }
  OneRow row("ARGB", 3, std::vector<guint8>(12, 7));
  pack_alpha(alpha, row.frame());
  EXPECT_EQ(row.bytes(), (std::vector<guint8>{0, 7, 7, 7, 1, 7, 7, 7, 255, 7, 7, 7}));
}

TEST(PixelFormats, AlphaOfAnotherSizeIsTheNearestSample) {
  AlphaPlane alpha{{6, 2}, SampleFormat::U8, {}};
  for (int i = 0; i < 12; ++i) alpha.samples.push_back(static_cast<std::byte>(i));
  OneRow row("ARGB", 2, std::vector<guint8>(8, 0));
  pack_alpha(alpha, row.frame());
  EXPECT_EQ(row.bytes()[0], 7);
  EXPECT_EQ(row.bytes()[4], 10);
}

TEST(PixelFormats, AllThatThePadsOfferAreTested) {
  gst_init(nullptr, nullptr);
  const auto count = [](const char* text) {
    GValue list = G_VALUE_INIT;
    g_value_init(&list, GST_TYPE_LIST);
    EXPECT_TRUE(gst_value_deserialize(&list, text));
    const std::size_t size = gst_value_list_get_size(&list);
    g_value_unset(&list);
    return size;
  };
  EXPECT_EQ(count(NORMALCRAFTER_OUTPUT_FORMATS), kOutputFormats.size());
  EXPECT_EQ(count(NORMALCRAFTER_INPUT_FORMATS), kOutputFormats.size() + kTenBitFormats.size());
}

}  // namespace
}  // namespace normalcrafter
