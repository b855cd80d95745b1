// What stays of a buffer on its way through: timestamps, flags, metas, strides (case 17).
#include <gst/video/gstvideometa.h>

#include "element_fixture.h"

namespace normalcrafter {
namespace {

TEST_F(ElementTest, TimestampsOffsetsAndFlagsAreEachFramesOwn) {
  play();
  for (int i = 0; i < 15; ++i) {
    BufferPtr buffer = frame(i);
    GstBuffer* b = buffer.get();
    // Variable frame rate, and gaps in every field.
    GST_BUFFER_PTS(b) = i % 4 == 3 ? GST_CLOCK_TIME_NONE : i * i * GST_MSECOND;
    GST_BUFFER_DTS(b) = i % 3 == 2 ? GST_CLOCK_TIME_NONE : i * 7;
    GST_BUFFER_DURATION(b) = i % 5 == 4 ? GST_CLOCK_TIME_NONE : i + 1;
    GST_BUFFER_OFFSET(b) = 1000 + i;
    GST_BUFFER_OFFSET_END(b) = 2000 + i;
    if (i % 2) GST_BUFFER_FLAG_SET(b, GST_BUFFER_FLAG_MARKER);
    if (i == 6) GST_BUFFER_FLAG_SET(b, GST_BUFFER_FLAG_DISCONT);
    if (i == 7) GST_BUFFER_FLAG_SET(b, GST_BUFFER_FLAG_CORRUPTED);
    if (i == 8) GST_BUFFER_FLAG_SET(b, GST_BUFFER_FLAG_GAP);
    ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  }
  EXPECT_TRUE(send_eos());
  for (int i = 0; i < 15; ++i) {
    SCOPED_TRACE(i);
    const BufferPtr buffer = pull();
    ASSERT_TRUE(buffer);
    GstBuffer* b = buffer.get();
    EXPECT_EQ(GST_BUFFER_PTS(b), i % 4 == 3 ? GST_CLOCK_TIME_NONE : i * i * GST_MSECOND);
    EXPECT_EQ(GST_BUFFER_DTS(b), i % 3 == 2 ? GST_CLOCK_TIME_NONE : i * 7);
    EXPECT_EQ(GST_BUFFER_DURATION(b), i % 5 == 4 ? GST_CLOCK_TIME_NONE : i + 1);
    EXPECT_EQ(GST_BUFFER_OFFSET(b), 1000u + i);
    EXPECT_EQ(GST_BUFFER_OFFSET_END(b), 2000u + i);
    EXPECT_EQ(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_MARKER) != 0, i % 2 == 1);
    EXPECT_EQ(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_DISCONT) != 0, i == 6);
    EXPECT_EQ(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_CORRUPTED) != 0, i == 7);
    EXPECT_FALSE(GST_BUFFER_FLAG_IS_SET(b, GST_BUFFER_FLAG_GAP)) << "normals are no filler";
  }
}

TEST_F(ElementTest, TimecodesTravelWithTheirFrames) {
  play();
  for (int i = 0; i < 15; ++i) {
    BufferPtr buffer = frame(i);
    gst_buffer_add_video_time_code_meta_full(buffer.get(), 25, 1, nullptr,
                                             GST_VIDEO_TIME_CODE_FLAGS_NONE, 1, 2, 3, i, 0);
    ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  }
  EXPECT_TRUE(send_eos());
  for (int i = 0; i < 15; ++i) {
    const BufferPtr buffer = pull();
    ASSERT_TRUE(buffer);
    const GstVideoTimeCodeMeta* meta = gst_buffer_get_video_time_code_meta(buffer.get());
    ASSERT_NE(meta, nullptr);
    EXPECT_EQ(meta->tc.frames, static_cast<guint>(i));
  }
}

TEST_F(ElementTest, AtTheSameSizeRegionsKeepTheirParameters) {
  play();
  BufferPtr buffer = frame(0);
  auto* region = gst_buffer_add_video_region_of_interest_meta(buffer.get(), "face", 1, 2, 3, 4);
  gst_video_region_of_interest_meta_add_param(
      region, gst_structure_new("detection", "confidence", G_TYPE_DOUBLE, 0.9, nullptr));
  ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  const BufferPtr out = pull();
  ASSERT_TRUE(out);
  auto* kept = reinterpret_cast<GstVideoRegionOfInterestMeta*>(
      gst_buffer_get_meta(out.get(), GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE));
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->w, 3u);
  EXPECT_NE(gst_video_region_of_interest_meta_get_param(kept, "detection"), nullptr);
}

TEST_F(ElementTest, RegionsAndCropsAreScaledWithThePicture) {
  constexpr const char* kLarge = "video/x-raw,format=RGB,width=64,height=32,framerate=25/1";
  constexpr const char* kSmall = "video/x-raw,format=RGB,width=16,height=8,framerate=25/1";
  g_object_set(element_, "max-resolution", 16, nullptr);
  gst_util_set_object_arg(G_OBJECT(element_), "output-size", "processed");
  play(kLarge);
  BufferPtr buffer = frame(0, kLarge);
  gst_buffer_add_video_region_of_interest_meta(buffer.get(), "face", 8, 4, 32, 16);
  gst_buffer_add_video_crop_meta(buffer.get())->width = 12;
  ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  const BufferPtr out = pull();
  ASSERT_TRUE(out);
  EXPECT_EQ(colour_of(out.get(), kSmall), offline_clip(0, 1)[0]);
  auto* region = reinterpret_cast<GstVideoRegionOfInterestMeta*>(
      gst_buffer_get_meta(out.get(), GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE));
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->x, 2u);
  EXPECT_EQ(region->w, 8u);
  const GstVideoCropMeta* crop = gst_buffer_get_video_crop_meta(out.get());
  ASSERT_NE(crop, nullptr);
  EXPECT_EQ(crop->width, 3u);
}

TEST_F(ElementTest, AFramesParentIsNotHeld) {
  controls().block_windows = true;
  play();
  GstBuffer* parent = gst_buffer_new();
  BufferPtr buffer = frame(0);
  gst_buffer_add_parent_buffer_meta(buffer.get(), parent);
  ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(parent), 1);
  gst_buffer_unref(parent);
  controls().block_windows = false;
  EXPECT_TRUE(send_eos());
  EXPECT_TRUE(pull());
}

struct Shape {
  int width, height;
};

class FrameShape : public ElementTest, public testing::WithParamInterface<Shape> {};

TEST_P(FrameShape, ComesBackExactly) {
  const auto [width, height] = GetParam();
  const std::string caps = "video/x-raw,format=RGB,framerate=25/1,width=" + std::to_string(width) +
                           ",height=" + std::to_string(height);
  play(caps.c_str());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(push(i, caps.c_str()), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(colour_of(pull().get(), caps.c_str()), offline_clip(0, 3)[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Case17, FrameShape,
                         testing::Values(Shape{1, 1}, Shape{17, 31}, Shape{31, 101}, Shape{3, 1},
                                         Shape{1, 3}, Shape{65, 2}));

/// A buffer with rows of `stride` bytes, a margin in front, and a video meta that says so.
BufferPtr padded_buffer(int width, int height, int stride, int margin, Colour colour) {
  BufferPtr buffer(gst_buffer_new_allocate(nullptr, margin + stride * height, nullptr));
  GstMapInfo map;
  gst_buffer_map(buffer.get(), &map, GST_MAP_WRITE);
  std::fill(map.data, map.data + map.size, 0xee);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      guint8* pixel = map.data + margin + y * stride + 3 * x;
      pixel[0] = colour.r;
      pixel[1] = colour.g;
      pixel[2] = colour.b;
    }
  }
  gst_buffer_unmap(buffer.get(), &map);
  gsize offset[GST_VIDEO_MAX_PLANES] = {static_cast<gsize>(margin)};
  gint strides[GST_VIDEO_MAX_PLANES] = {stride};
  gst_buffer_add_video_meta_full(buffer.get(), GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_RGB,
                                 width, height, 1, offset, strides);
  return buffer;
}

TEST_F(ElementTest, PaddedInputIsReadByItsStride) {
  constexpr const char* kOdd = "video/x-raw,format=RGB,width=7,height=5,framerate=25/1";
  play(kOdd);
  ASSERT_EQ(push_buffer(padded_buffer(7, 5, 40, 11, test_colour(0))), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  const BufferPtr out = pull();
  ASSERT_TRUE(out);
  EXPECT_EQ(colour_of(out.get(), kOdd), offline_clip(0, 1)[0]);
  EXPECT_EQ(gst_buffer_get_size(out.get()), 24u * 5) << "the output has the usual layout";
}

/// A frame of kCaps8x6 in a buffer whose video meta says what the test wants.
class VideoMetaTest : public ElementTest {
 protected:
  static BufferPtr with_meta(BufferPtr buffer, int width, int height, gsize offset, gint stride,
                             GstVideoFormat format = GST_VIDEO_FORMAT_RGB) {
    gsize offsets[GST_VIDEO_MAX_PLANES] = {offset};
    gint strides[GST_VIDEO_MAX_PLANES] = {stride};
    gst_buffer_add_video_meta_full(buffer.get(), GST_VIDEO_FRAME_FLAG_NONE, format, width, height,
                                   1, offsets, strides);
    return buffer;
  }

  void expect_refusal(BufferPtr buffer) {
    play();
    EXPECT_EQ(push_buffer(std::move(buffer)), GST_FLOW_ERROR);
    EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, "buffer"));
    push_frames(0, 3);
    EXPECT_TRUE(send_eos());
    EXPECT_EQ(pull_colours(3), offline_clip(0, 3)) << "nothing of it is kept";
  }
};

TEST_F(VideoMetaTest, OfALargerPictureLeavesTheCapsTheirSize) {
  play();
  BufferPtr large = padded_buffer(20, 9, 60, 0, test_colour(0));
  ASSERT_EQ(push_buffer(std::move(large)), GST_FLOW_OK);
  ASSERT_EQ(push(1), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(2), offline_clip(0, 2));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(VideoMetaTest, OfASmallerPictureIsOneError) {
  expect_refusal(with_meta(frame(0), 7, 6, 0, 24));
}

TEST_F(VideoMetaTest, OfAnotherFormatIsOneError) {
  expect_refusal(with_meta(frame(0), 8, 6, 0, 24, GST_VIDEO_FORMAT_RGBA));
}

TEST_F(VideoMetaTest, WithAStrideBeyondTheMemoryIsOneError) {
  expect_refusal(with_meta(frame(0), 8, 6, 0, 1 << 24));
}

TEST_F(VideoMetaTest, WithAnOffsetNearTheMemorysEndIsOneError) {
  expect_refusal(with_meta(frame(0), 8, 6, 8 * 6 * 3 - 1, 24));
}

TEST_F(VideoMetaTest, WithAnOffsetBeyondTheMemoryIsOneError) {
  expect_refusal(with_meta(frame(0), 8, 6, 100000, 24));
}

TEST_F(VideoMetaTest, WithRowsUpwardsIsReadUpwardsButNotBelowItsMemory) {
  play();
  ASSERT_EQ(push_buffer(with_meta(frame(0), 8, 6, 5 * 24, -24)), GST_FLOW_OK);
  EXPECT_EQ(push_buffer(with_meta(frame(1), 8, 6, 4 * 24, -24)), GST_FLOW_ERROR);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(1), offline_clip(0, 1));
}

/// The frame's bytes in memories of these sizes, and one with the rest.
BufferPtr in_memories(GstBuffer* whole, const std::vector<gsize>& sizes) {
  BufferPtr parts(gst_buffer_new());
  gsize offset = 0;
  const auto append = [&](gsize size) {
    GstMemory* memory = gst_allocator_alloc(nullptr, size, nullptr);
    GstMapInfo map;
    gst_memory_map(memory, &map, GST_MAP_WRITE);
    gst_buffer_extract(whole, offset, map.data, size);
    gst_memory_unmap(memory, &map);
    gst_buffer_append_memory(parts.get(), memory);
    offset += size;
  };
  for (const gsize size : sizes) append(size);
  append(gst_buffer_get_size(whole) - offset);
  return parts;
}

TEST_F(VideoMetaTest, WithAPlaneInSeveralMemoriesIsReadWhole) {
  play();
  ASSERT_EQ(push_buffer(in_memories(frame(0).get(), {50, 30})), GST_FLOW_OK);
  ASSERT_EQ(push_buffer(with_meta(in_memories(frame(1).get(), {50, 30}), 8, 6, 0, 24)),
            GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(2), offline_clip(0, 2));
}

TEST_F(ElementTest, AnEmptyBufferIsOneError) {
  play();
  EXPECT_EQ(push_buffer(BufferPtr(gst_buffer_new())), GST_FLOW_ERROR);
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, "buffer"));
}

TEST_F(ElementTest, AReadOnlyBufferThatOthersHoldIsReadAndLeftAlone) {
  play();
  BufferPtr held = frame(0);
  GST_MINI_OBJECT_FLAG_SET(gst_buffer_peek_memory(held.get(), 0), GST_MEMORY_FLAG_READONLY);
  ASSERT_EQ(push_buffer(BufferPtr(gst_buffer_ref(held.get()))), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(1), offline_clip(0, 1));
  EXPECT_EQ(colour_of(held.get()), test_colour(0));
  EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(held.get()), 1);
}

TEST_F(ElementTest, DownstreamsPoolOfTooSmallBuffersIsNotUsed) {
  GstBufferPool* pool = gst_buffer_pool_new();
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
  const gulong probe = gst_pad_add_probe(
      harness_->sinkpad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
      [](GstPad*, GstPadProbeInfo* info, gpointer pool) {
        GstQuery* query = GST_PAD_PROBE_INFO_QUERY(info);
        if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return GST_PAD_PROBE_OK;
        gst_query_add_allocation_pool(query, static_cast<GstBufferPool*>(pool), 10, 0, 0);
        return GST_PAD_PROBE_HANDLED;
      },
      pool, nullptr);
  gst_harness_set_src_caps_str(harness_, kCaps8x6);
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
  gst_pad_remove_probe(harness_->sinkpad, probe);
  stop();
  gst_object_unref(pool);
}

TEST_F(ElementTest, DownstreamsPaddedPoolIsUsed) {
  constexpr const char* kOdd = "video/x-raw,format=RGB,width=7,height=5,framerate=25/1";
  GstBufferPool* pool = gst_video_buffer_pool_new();
  GstStructure* config = gst_buffer_pool_get_config(pool);
  const CapsPtr caps(gst_caps_from_string(
      "video/x-raw,format=RGB,width=7,height=5,framerate=25/1,colorimetry=sRGB"));
  gst_buffer_pool_config_set_params(config, caps.get(), 500, 4, 0);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
  GstVideoAlignment align;
  gst_video_alignment_reset(&align);
  align.padding_left = 8;
  align.padding_top = 2;
  align.stride_align[0] = 15;
  gst_buffer_pool_config_set_video_alignment(config, &align);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
  // Downstream's answer to the allocation query.
  GstPad* source = gst_element_get_static_pad(element_, "src");
  const gulong probe = gst_pad_add_probe(
      source, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
      [](GstPad*, GstPadProbeInfo* info, gpointer pool) {
        GstQuery* query = GST_PAD_PROBE_INFO_QUERY(info);
        if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return GST_PAD_PROBE_OK;
        gst_query_add_allocation_pool(query, static_cast<GstBufferPool*>(pool), 500, 4, 0);
        gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
        return GST_PAD_PROBE_HANDLED;
      },
      pool, nullptr);
  gst_harness_set_src_caps_str(harness_, kOdd);
  for (int i = 0; i < 8; ++i) ASSERT_EQ(push(i, kOdd), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  int padded = 0;
  for (int i = 0; i < 8; ++i) {
    const BufferPtr out = pull();
    ASSERT_TRUE(out);
    EXPECT_EQ(colour_of(out.get(), kOdd), offline_clip(0, 8)[i]);
    const GstVideoMeta* meta = gst_buffer_get_video_meta(out.get());
    if (meta != nullptr && meta->offset[0] > 0) ++padded;
  }
  EXPECT_GT(padded, 0) << "the pool was not used";
  gst_pad_remove_probe(source, probe);
  gst_object_unref(source);
  stop();
  gst_object_unref(pool);
}

TEST_F(ElementTest, ABufferTooSmallForItsCapsIsOneError) {
  play();
  EXPECT_EQ(push_buffer(BufferPtr(gst_buffer_new_allocate(nullptr, 5, nullptr))), GST_FLOW_ERROR);
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, "buffer"));
}

TEST_F(ElementTest, OutputCapsKeepFormatRateAndAspectAndSayFullRange) {
  play("video/x-raw,format=BGRx,width=10,height=4,framerate=24000/1001,pixel-aspect-ratio=8/9");
  GstPad* source = gst_element_get_static_pad(element_, "src");
  const CapsPtr caps(gst_pad_get_current_caps(source));
  gst_object_unref(source);
  ASSERT_TRUE(caps);
  GstVideoInfo info;
  ASSERT_TRUE(gst_video_info_from_caps(&info, caps.get()));
  EXPECT_EQ(GST_VIDEO_INFO_FORMAT(&info), GST_VIDEO_FORMAT_BGRx);
  EXPECT_EQ(info.fps_n, 24000);
  EXPECT_EQ(info.fps_d, 1001);
  EXPECT_EQ(info.par_n, 8);
  EXPECT_EQ(info.par_d, 9);
  EXPECT_TRUE(gst_video_colorimetry_matches(&info.colorimetry, GST_VIDEO_COLORIMETRY_SRGB));
}

TEST_F(ElementTest, SixteenBitOutputIsMadeFromAnEightBitInput) {
  constexpr const char* kOut = "video/x-raw,format=RGBA64_LE";
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
  gst_harness_set_sink_caps_str(harness_, kOut);
  gst_harness_set_src_caps_str(harness_, kCaps8x6);
  push_frames(0, 2);
  EXPECT_TRUE(send_eos());
  const BufferPtr out = pull();
  ASSERT_TRUE(out);
  ASSERT_EQ(gst_buffer_get_size(out.get()), 8u * 6 * 8);
  guint16 pixel[4];
  gst_buffer_extract(out.get(), 0, pixel, sizeof pixel);
  const Colour in = test_colour(0);
  EXPECT_EQ(pixel[0], 65535 - 257 * in.r);
  EXPECT_EQ(pixel[1], 257 * in.g);
  EXPECT_EQ(pixel[3], 65535);
}

}  // namespace
}  // namespace normalcrafter
