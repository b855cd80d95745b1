// Events and caps between frames (cases 3, 4, 5, 6 and 16).
#include "element_fixture.h"

namespace normalcrafter {
namespace {

GstEvent* tag_event(const char* title) {
  return gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, title, nullptr));
}

/// The log with runs of frames shortened: "frames 0-6", "tag", "frames 7-14".
std::vector<std::string> shorten(const std::vector<std::string>& log) {
  std::vector<std::string> runs;
  int first = -1;
  int last = -1;
  const auto close = [&] {
    if (first >= 0) runs.push_back("frames " + std::to_string(first) + "-" + std::to_string(last));
    first = -1;
  };
  for (const std::string& entry : log) {
    if (entry.rfind("frame ", 0) == 0) {
      last = std::stoi(entry.substr(6));
      if (first < 0) first = last;
    } else {
      close();
      runs.push_back(entry);
    }
  }
  close();
  return runs;
}

using Log = std::vector<std::string>;

TEST_F(ElementTest, SerializedEventsKeepTheirPlaceAmongFrames) {
  play();
  Recorder recorder(element_);
  push_frames(0, 7);
  EXPECT_TRUE(send(tag_event("seven")));
  push_frames(7, 5);
  EXPECT_TRUE(send(gst_event_new_gap(12 * kFrame, kFrame)));
  push_frames(13, 3);
  EXPECT_TRUE(
      send(gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty("marker"))));
  push_frames(16, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-6", "tag", "frames 7-11", "gap", "frames 12-14",
                                          "custom-downstream", "frames 15-19", "eos"}));
  EXPECT_EQ(controls().clips, 1) << "an event cut the clip";
}

TEST_F(ElementTest, AnEventAfterTheLastFrameLeavesBeforeEos) {
  play();
  Recorder recorder(element_);
  push_frames(0, 3);
  EXPECT_TRUE(send(tag_event("end")));
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-2", "tag", "eos"}));
}

TEST_F(ElementTest, EventsThatAreNotSerializedOvertakeFrames) {
  play();
  Recorder recorder(element_);
  push_frames(0, 3);
  EXPECT_TRUE(
      send(gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM_OOB, gst_structure_new_empty("now"))));
  EXPECT_EQ(recorder.log(), Log{"custom-downstream-oob"});
}

TEST_F(ElementTest, AGapLongerThanTheLatencyEndsTheClip) {
  play();
  Recorder recorder(element_);
  push_frames(0, 3);
  EXPECT_TRUE(send(gst_event_new_gap(3 * kFrame, 10 * GST_SECOND)));
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-2", "gap"}));
}

TEST_F(ElementTest, OtherCapsEndTheClipAndFramesKeepTheirGeometry) {
  constexpr const char* kWide = "video/x-raw,format=RGB,width=21,height=3,framerate=25/1";
  play();
  Recorder recorder(element_);
  push_frames(0, 5);
  EXPECT_TRUE(send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kWide)).get())));
  for (int i = 5; i < 9; ++i) EXPECT_EQ(push(i, kWide), GST_FLOW_OK);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-4", "caps", "frames 5-8", "eos"}));
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  const std::vector<Colour> wide = offline_clip(5, 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(colour_of(pull().get(), kWide), wide[i]);
}

TEST_F(ElementTest, EqualCapsDoNotEndTheClip) {
  play();
  push_frames(0, 5);
  EXPECT_TRUE(send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kCaps8x6)).get())));
  push_frames(5, 4);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(9), offline_clip(0, 9));
}

TEST_F(ElementTest, ReconfigureInAWindowNeitherHangsNorLosesFrames) {
  play();
  push_frames(0, 5);
  GstPad* source = gst_element_get_static_pad(element_, "src");
  gst_pad_mark_reconfigure(source);
  push_frames(5, 10);
  gst_pad_mark_reconfigure(source);
  EXPECT_TRUE(send_eos());
  gst_object_unref(source);
  EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
}

TEST_F(ElementTest, ADrainQueryPushesAPartialWindow) {
  play();
  push_frames(0, 5);
  GstQuery* query = gst_query_new_drain();
  GstPad* sink = gst_element_get_static_pad(element_, "sink");
  gst_pad_query(sink, query);
  gst_object_unref(sink);
  gst_query_unref(query);
  EXPECT_EQ(gst_harness_buffers_received(harness_), 5);
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
}

TEST_F(ElementTest, ASegmentEndsTheClip) {
  play();
  Recorder recorder(element_);
  push_frames(0, 4);
  send_segment();
  push_frames(4, 4);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-3", "segment", "frames 4-7", "eos"}));
}

TEST_F(ElementTest, DiscontWithoutAJumpGoesOnAndWithAJumpStartsAnew) {
  play();
  push_frames(0, 3);
  BufferPtr near = frame(4);  // one frame was dropped by a camera
  GST_BUFFER_FLAG_SET(near.get(), GST_BUFFER_FLAG_DISCONT);
  EXPECT_EQ(push_buffer(std::move(near)), GST_FLOW_OK);
  EXPECT_EQ(gst_harness_buffers_received(harness_), 0);
  BufferPtr far = frame(100);
  GST_BUFFER_FLAG_SET(far.get(), GST_BUFFER_FLAG_DISCONT);
  EXPECT_EQ(push_buffer(std::move(far)), GST_FLOW_OK);
  EXPECT_EQ(gst_harness_buffers_received(harness_), 4);
  BufferPtr back = frame(99);
  GST_BUFFER_FLAG_SET(back.get(), GST_BUFFER_FLAG_DISCONT);
  EXPECT_EQ(push_buffer(std::move(back)), GST_FLOW_OK);
  EXPECT_EQ(gst_harness_buffers_received(harness_), 5);
}

TEST_F(ElementTest, ChangingALivePropertyStartsANewClip) {
  play();
  push_frames(0, 3);
  g_object_set(element_, "flip-x", TRUE, nullptr);
  push_frames(3, 2);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(3), offline_clip(0, 3));
  std::vector<Colour> flipped = offline_clip(3, 2);
  for (Colour& colour : flipped) colour.r = static_cast<std::uint8_t>(255 - colour.r);
  EXPECT_EQ(pull_colours(2), flipped);
  EXPECT_EQ(stat("frames-in"), 5u) << "statistics are kept from session to session";
}

TEST_F(ElementTest, PositionIsTheLastPushedFramesStreamTime) {
  play();
  gint64 position = -1;
  GstPad* source = gst_element_get_static_pad(element_, "src");
  push_frames(0, 14);  // 0 to 13 are in, none is out: a window's first frame alone is final
  EXPECT_TRUE(gst_pad_query_position(source, GST_FORMAT_TIME, &position));
  EXPECT_EQ(position, 0);
  EXPECT_TRUE(send_eos());
  EXPECT_TRUE(gst_pad_query_position(source, GST_FORMAT_TIME, &position));
  EXPECT_EQ(position, static_cast<gint64>(13 * kFrame));
  gst_object_unref(source);
}

TEST_F(ElementTest, InterlacedVideoIsRefusedOnceWithAReason) {
  play();
  send(gst_event_new_caps(
      CapsPtr(gst_caps_from_string("video/x-raw,format=RGB,width=8,height=6,framerate=25/1,"
                                   "interlace-mode=interleaved"))
          .get()));
  EXPECT_EQ(push(0), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_EQ(push(1), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, "deinterlace"));
  send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kCaps8x6)).get()));
  push_frames(0, 3);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(3), offline_clip(0, 3));
}

TEST_F(ElementTest, ATurnedVideoIsWarnedAbout) {
  play();
  EXPECT_TRUE(
      send(gst_event_new_tag(gst_tag_list_new(GST_TAG_IMAGE_ORIENTATION, "rotate-90", nullptr))));
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 1);
  EXPECT_TRUE(
      send(gst_event_new_tag(gst_tag_list_new(GST_TAG_IMAGE_ORIENTATION, "rotate-0", nullptr))));
  EXPECT_EQ(messages_->count(GST_MESSAGE_WARNING), 1);
}

}  // namespace
}  // namespace normalcrafter
