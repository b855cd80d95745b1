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

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const char* format :
       {"RGB", "BGR", "RGBx", "xRGB", "BGRx", "xBGR", "RGBA", "ARGB", "BGRA", "ABGR", "GBR", "GBRA",
        "ARGB64", "RGBA64_LE", "RGBA64_BE", "ARGB64_LE", "ARGB64_BE"}) {
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

  bool wide() const { return GST_VIDEO_INFO_COMP_DEPTH(&info_, 0) == 16; }

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

TEST_P(PixelFormat, IsUnpackedAsGStreamerDoesIt) {
  for (guint i = 0; i < gst_buffer_n_memory(buffer_.get()); ++i) {
    auto* bytes = static_cast<guint8*>(frame_.map[0].data);
    for (gsize b = 0; b < frame_.map[0].size; ++b) bytes[b] = static_cast<guint8>(b * 37 + 11);
  }
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

TEST_P(PixelFormat, IsPackedSoThatGStreamerReadsItBackOpaque) {
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

TEST_P(PixelFormat, WritesNothingOutsideThePicture) {
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

INSTANTIATE_TEST_SUITE_P(All, PixelFormat, testing::ValuesIn(layouts()),
                         [](const testing::TestParamInfo<Layout>& info) {
                           return std::string(info.param.format) + "_" +
                                  std::to_string(info.param.width) + "x" +
                                  std::to_string(info.param.height) + "_" +
                                  std::to_string(info.param.padding);
                         });

TEST(PixelFormats, AllThatThePadsOfferAreTested) {
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_LIST);
  gst_init(nullptr, nullptr);
  ASSERT_TRUE(gst_value_deserialize(&list, NORMALCRAFTER_OUTPUT_FORMATS));
  EXPECT_EQ(gst_value_list_get_size(&list) * 6, layouts().size());
  g_value_unset(&list);
}

}  // namespace
}  // namespace normalcrafter
