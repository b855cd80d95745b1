// Where a stream is cut, in a pipeline of GStreamer's own elements.
#include <gst/gst.h>
#include <gtest/gtest.h>

#include "gate.h"

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

}  // namespace
}  // namespace normalcrafter::convert
