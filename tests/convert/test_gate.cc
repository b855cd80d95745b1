// Where a stream is cut and how it is turned, in a pipeline of GStreamer's own elements.
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "gate.h"
#include "gst_handles.h"
#include "source.h"

namespace normalcrafter::convert {
namespace {

/// Sends tags ahead of each buffer, as sources do at any time, and counts those that are refused.
GstPadProbeReturn with_tags(GstPad* pad, GstPadProbeInfo*, gpointer refused) {
  GstTagList* tags = gst_tag_list_new(GST_TAG_BITRATE, 1000U, nullptr);
  if (!gst_pad_send_event(pad, gst_event_new_tag(tags))) ++*static_cast<int*>(refused);
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn count(GstPad*, GstPadProbeInfo*, gpointer number) {
  ++*static_cast<int*>(number);
  return GST_PAD_PROBE_OK;
}

void add_probe(GstElement* element, GstPadProbeCallback probe, int& number) {
  GstPad* pad = gst_element_get_static_pad(element, "sink");
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, probe, &number, nullptr);
  gst_object_unref(pad);
}

GstMessageType ends_with(GstElement* pipeline) {
  GstBus* bus = gst_element_get_bus(pipeline);
  GstMessage* message = gst_bus_timed_pop_filtered(
      bus, 20 * GST_SECOND, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  const GstMessageType type = message == nullptr ? GST_MESSAGE_UNKNOWN : GST_MESSAGE_TYPE(message);
  if (message != nullptr) gst_message_unref(message);
  gst_object_unref(bus);
  return type;
}

TEST(Gate, WhatTheSourceStillSendsBehindTheCutIsNoFault) {
  gst_init(nullptr, nullptr);
  GstElement* pipeline = gst_parse_launch(
      "fakesrc num-buffers=200 format=time ! identity name=gate ! "
      "fakesink name=end",
      nullptr);
  ASSERT_NE(pipeline, nullptr);
  GstElement* gate = gst_bin_get_by_name(GST_BIN(pipeline), "gate");
  GstElement* end = gst_bin_get_by_name(GST_BIN(pipeline), "end");
  int refused = 0;
  int arrived = 0;
  add_probe(gate, with_tags, refused);
  add_probe(end, count, arrived);
  {
    GstPad* pad = gst_element_get_static_pad(gate, "src");
    RangeRequest five;
    five.length = Amount{Amount::Unit::Frames, 5};
    VideoGate cut(pad, five, [](std::int64_t) {});
    gst_object_unref(pad);
    cut.open();
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    EXPECT_EQ(ends_with(pipeline), GST_MESSAGE_EOS);
    EXPECT_TRUE(cut.has_cut());
    EXPECT_EQ(cut.passed(), 5);
    gst_element_set_state(pipeline, GST_STATE_NULL);
  }
  EXPECT_EQ(arrived, 5);
  EXPECT_EQ(refused, 0);
  for (GstElement* element : {gate, end, pipeline}) gst_object_unref(element);
}

int depth_of(const GstVideoInfo& info) {
  return GST_VIDEO_INFO_COMP_DEPTH(&info, 0);
}

/// Sends a frame that lies on its side through frames_line(): what comes out, and the number of
/// bits that videoflip got; 0 where it is left out.
GstVideoInfo turned(const std::string& caps, int& bits) {
  const Handle<GstCaps> parsed(gst_caps_from_string(caps.c_str()));
  GstElement* pipeline = gst_parse_launch(
      ("videotestsrc num-buffers=1 ! " + caps + " ! taginject tags=image-orientation=rotate-90 ! " +
       frames_line(parsed.get()) + " ! fakesink name=end async=false")
          .c_str(),
      nullptr);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  EXPECT_EQ(ends_with(pipeline), GST_MESSAGE_EOS) << caps;
  const auto info_at = [](GstElement* element) {
    const Handle<GstPad> pad(gst_element_get_static_pad(element, "sink"));
    const Handle<GstCaps> current(gst_pad_get_current_caps(pad.get()));
    GstVideoInfo info;
    gst_video_info_init(&info);
    if (current) gst_video_info_from_caps(&info, current.get());
    return info;
  };
  bits = 0;
  GstIterator* flips = gst_bin_iterate_all_by_element_factory_name(GST_BIN(pipeline), "videoflip");
  GValue flip = G_VALUE_INIT;
  if (gst_iterator_next(flips, &flip) == GST_ITERATOR_OK)
    bits = depth_of(info_at(GST_ELEMENT(g_value_get_object(&flip))));
  g_value_unset(&flip);
  gst_iterator_free(flips);
  GstElement* end = gst_bin_get_by_name(GST_BIN(pipeline), "end");
  const GstVideoInfo info = info_at(end);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(end);
  gst_object_unref(pipeline);
  return info;
}

TEST(Turning, LosesNoBitsOfDeepVideo) {
  gst_init(nullptr, nullptr);
  for (const auto& [format, depth] :
       std::initializer_list<std::pair<std::string, int>>{{"I420_10LE", 10},
                                                          {"P010_10LE", 10},
                                                          {"NV12_10LE32", 10},
                                                          {"v210", 10},
                                                          {"Y410", 10},
                                                          {"Y212_LE", 12},
                                                          {"P012_LE", 12},
                                                          {"Y444_12LE", 12},
                                                          {"GRAY16_LE", 16}}) {
    int bits = 0;
    const GstVideoInfo info = turned("video/x-raw,width=64,height=48,format=" + format, bits);
    EXPECT_EQ(GST_VIDEO_INFO_WIDTH(&info), 48) << format;
    EXPECT_GE(bits, depth) << format;
    EXPECT_EQ(depth_of(info), 16) << format;
  }
}

TEST(Turning, IsLeftOutWhereItWouldLoseBits) {
  gst_init(nullptr, nullptr);
  for (const char* format : {"ARGB64", "Y444_16LE", "GBR_10LE"}) {
    int bits = 0;
    const GstVideoInfo info =
        turned(std::string("video/x-raw,width=64,height=48,format=") + format, bits);
    EXPECT_EQ(GST_VIDEO_INFO_WIDTH(&info), 64) << format;
    EXPECT_EQ(bits, 0) << format;
  }
}

TEST(Turning, TakesInterlacedVideoOfAnyFormat) {
  gst_init(nullptr, nullptr);
  for (const char* format : {"I420", "P010_10LE", "v210", "I422_10LE"}) {
    int bits = 0;
    const GstVideoInfo info = turned(
        std::string("video/x-raw,width=64,height=48,interlace-mode=interleaved,format=") + format,
        bits);
    EXPECT_EQ(GST_VIDEO_INFO_WIDTH(&info), 48) << format;
  }
}

}  // namespace
}  // namespace normalcrafter::convert
