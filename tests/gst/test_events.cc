// Events and caps between frames (cases 3, 4, 5, 6 and 16).
#include <random>

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

TEST_F(ElementTest, EventsOfEveryOrderedKindKeepTheirPlace) {
  play();
  Recorder recorder(element_);
  GstToc* toc = gst_toc_new(GST_TOC_SCOPE_GLOBAL);
  push_frames(0, 2);
  EXPECT_TRUE(send(gst_event_new_toc(toc, FALSE)));
  gst_toc_unref(toc);
  push_frames(2, 2);
  EXPECT_TRUE(send(gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY,
                                        gst_structure_new_empty("sticky-marker"))));
  push_frames(4, 2);
  EXPECT_TRUE(send(gst_event_new_sink_message(
      "named", MessagePtr(gst_message_new_latency(GST_OBJECT(element_))).get())));
  push_frames(6, 10);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(shorten(recorder.log()),
            (Log{"frames 0-1", "toc", "frames 2-3", "custom-downstream-sticky", "frames 4-5",
                 "sink-message", "frames 6-15", "eos"}));
  EXPECT_EQ(controls().clips, 1);
}

TEST_F(ElementTest, AnEventBeforeTheFirstFramePassesAtOnce) {
  play();
  Recorder recorder(element_);
  EXPECT_TRUE(send(tag_event("first")));
  EXPECT_EQ(recorder.log(), Log{"tag"});
}

TEST_F(ElementTest, TheEndOfAStreamGroupPushesWhatIsHeld) {
  play();
  Recorder recorder(element_);
  push_frames(0, 3);
  EXPECT_TRUE(send(gst_event_new_stream_group_done(1)));
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-2", "stream-group-done"}));
}

TEST_F(ElementTest, AGapLongerThanTheLatencyEndsTheClip) {
  play();
  Recorder recorder(element_);
  push_frames(0, 3);
  EXPECT_TRUE(send(gst_event_new_gap(3 * kFrame, 10 * GST_SECOND)));
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-2", "gap"}));
}

TEST_F(ElementTest, ShortGapsThatAddUpToMoreThanTheLatencyEndTheClip) {
  play();
  Recorder recorder(element_);
  push_frames(0, 3);
  for (int i = 3; i < 3 + 25; ++i) EXPECT_TRUE(send(gst_event_new_gap(i * kFrame, kFrame)));
  EXPECT_TRUE(recorder.log().empty()) << "the latency is that of 25 frames";
  EXPECT_TRUE(send(gst_event_new_gap(28 * kFrame, GST_CLOCK_TIME_NONE)));
  std::vector<std::string> log = recorder.log();
  ASSERT_EQ(log.size(), 3u + 26);
  EXPECT_EQ(log[2], "frame 2");
  EXPECT_EQ(log[3], "gap");
  push_frames(29, 3);
  EXPECT_TRUE(send(gst_event_new_gap(32 * kFrame, kFrame)));
  EXPECT_EQ(recorder.log().size(), log.size()) << "a frame ends the count";
}

TEST_F(ElementTest, HowLongAGapEndsTheClipDoesNotDependOnTheNetworksSpeed) {
  play();
  controls().window_ms = 2 * 14 * static_cast<int>(kFrame / GST_MSECOND);
  Recorder recorder(element_);
  push_frames(0, 25);
  ASSERT_TRUE(eventually([&] { return !recorder.log().empty(); })) << "a window has been timed";
  EXPECT_TRUE(send(gst_event_new_gap(25 * kFrame, 25 * kFrame)));
  EXPECT_TRUE(send(gst_event_new_gap(50 * kFrame, kFrame)));
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-24", "gap", "gap"}));
}

class SegmentFormat : public ElementTest, public testing::WithParamInterface<GstFormat> {};

TEST_P(SegmentFormat, NeedNotBeTime) {
  play();
  GstSegment segment;
  gst_segment_init(&segment, GetParam());
  ASSERT_TRUE(send(gst_event_new_segment(&segment)));
  for (int i = 0; i < 15; ++i) {
    BufferPtr buffer = frame(i);
    GST_BUFFER_PTS(buffer.get()) = GST_BUFFER_DURATION(buffer.get()) = GST_CLOCK_TIME_NONE;
    ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  }
  GstPad* source = gst_element_get_static_pad(element_, "src");
  gint64 position = -1;
  EXPECT_FALSE(gst_pad_query_position(source, GST_FORMAT_TIME, &position));
  gst_object_unref(source);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

INSTANTIATE_TEST_SUITE_P(Case16, SegmentFormat,
                         testing::Values(GST_FORMAT_BYTES, GST_FORMAT_DEFAULT));

struct Times {
  const char* name;
  GstClockTime (*pts)(int);
};

class OddTimes : public ElementTest, public testing::WithParamInterface<Times> {};

TEST_P(OddTimes, PassUnchangedInOneClip) {
  play();
  for (int i = 0; i < 15; ++i) {
    BufferPtr buffer = frame(i);
    GST_BUFFER_PTS(buffer.get()) = GetParam().pts(i);
    GST_BUFFER_DTS(buffer.get()) = i * kFrame;
    ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  }
  EXPECT_TRUE(send_eos());
  for (int i = 0; i < 15; ++i) {
    const BufferPtr out = pull();
    ASSERT_TRUE(out) << "frame " << i;
    EXPECT_EQ(GST_BUFFER_PTS(out.get()), GetParam().pts(i));
    EXPECT_EQ(GST_BUFFER_DTS(out.get()), i * kFrame);
    EXPECT_EQ(colour_of(out.get()), offline_clip(0, 15)[i]);
  }
  EXPECT_EQ(controls().clips, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Case16, OddTimes,
    testing::Values(
        Times{"none, only DTS", [](int) -> GstClockTime { return GST_CLOCK_TIME_NONE; }},
        Times{"the same", [](int) { return 7 * kFrame; }},
        Times{"backwards without DISCONT", [](int i) { return (100 - i) * kFrame; }},
        Times{"at the end of time", [](int i) { return GST_CLOCK_TIME_NONE - 20 + i; }}),
    [](const auto& info) { return "Case" + std::to_string(info.index); });

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

TEST_F(ElementTest, CapsThatChangeAtRandomLeaveEachFrameItsOwn) {
  controls().jitter_ms = 2;
  const auto caps_of = [](int side) {
    const std::string size = std::to_string(side);
    return "video/x-raw,format=RGB,framerate=25/1,width=" + size + ",height=" + size;
  };
  std::minstd_rand random(1);
  int side = 4;
  play(caps_of(side).c_str());
  std::vector<int> sides;
  for (int i = 0; i < 200; ++i) {
    if (random() % 6 == 0) {
      side = 4 + static_cast<int>(random() % 4) * 4;
      EXPECT_TRUE(
          send(gst_event_new_caps(CapsPtr(gst_caps_from_string(caps_of(side).c_str())).get())));
    }
    sides.push_back(side);
    ASSERT_EQ(push(i, caps_of(side).c_str()), GST_FLOW_OK);
  }
  EXPECT_TRUE(send_eos());
  for (int i = 0; i < 200; ++i) {
    const BufferPtr out = pull();
    ASSERT_TRUE(out) << "frame " << i;
    EXPECT_EQ(GST_BUFFER_PTS(out.get()), i * kFrame);
    EXPECT_EQ(gst_buffer_get_size(out.get()), static_cast<gsize>(3 * sides[i] * sides[i]));
  }
  EXPECT_TRUE(nothing_left());
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

TEST_F(ElementTest, DownstreamsNewFormatInAWindowTakesEffectWithoutLosingFrames) {
  constexpr const char* kBgr = "video/x-raw,format=BGR,width=8,height=6,framerate=25/1";
  play();
  Recorder recorder(element_);
  push_frames(0, 5);
  gst_harness_set_sink_caps_str(harness_, "video/x-raw,format=BGR");  // sends RECONFIGURE
  push_frames(5, 4);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(shorten(recorder.log()), (Log{"frames 0-4", "caps", "frames 5-8", "eos"}));
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5)) << "in the format that they were made for";
  const std::vector<Colour> rest = offline_clip(5, 4);
  for (int i = 0; i < 4; ++i) {
    const Colour bgr = colour_of(pull().get(), kBgr);
    EXPECT_EQ((Colour{bgr.b, bgr.g, bgr.r}), rest[i]);
  }
}

class DrainTest : public ElementTest {
 protected:
  bool drain() {
    GstQuery* query = gst_query_new_drain();
    GstPad* sink = gst_element_get_static_pad(element_, "sink");
    const bool answered = gst_pad_query(sink, query);
    gst_object_unref(sink);
    gst_query_unref(query);
    return answered;
  }

  /// DRAIN queries that reach downstream are answered, and counted.
  void answer_downstream() {
    gst_pad_add_probe(
        harness_->sinkpad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
        [](GstPad*, GstPadProbeInfo* info, gpointer count) {
          if (GST_QUERY_TYPE(GST_PAD_PROBE_INFO_QUERY(info)) != GST_QUERY_DRAIN) {
            return GST_PAD_PROBE_OK;
          }
          ++*static_cast<int*>(count);
          return GST_PAD_PROBE_HANDLED;
        },
        &reached_downstream_, nullptr);
  }

  int reached_downstream_ = 0;
};

TEST_F(DrainTest, APartialWindowIsPushedBeforeTheQueryGoesOn) {
  play();
  answer_downstream();
  push_frames(0, 5);
  EXPECT_TRUE(drain());
  EXPECT_EQ(gst_harness_buffers_received(harness_), 5);
  EXPECT_EQ(reached_downstream_, 1);
  push_frames(5, 4);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
  EXPECT_EQ(pull_colours(4), offline_clip(5, 4)) << "a clip of its own";
}

TEST_F(DrainTest, WithNothingHeldTheQueryJustGoesOn) {
  play();
  answer_downstream();
  EXPECT_TRUE(drain());
  EXPECT_EQ(reached_downstream_, 1);
  EXPECT_EQ(controls().windows, 0);
}

TEST_F(DrainTest, AFlushEndsAWaitingQuery) {
  controls().block_windows = true;
  play();
  answer_downstream();
  push_frames(0, 5);
  bool answered = true;
  std::thread upstream([&] { answered = drain(); });
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  upstream.join();
  EXPECT_FALSE(answered);
  EXPECT_EQ(reached_downstream_, 0);
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
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

class PositionTest : public ElementTest {
 protected:
  void begin_segment(GstClockTime start, GstClockTime stream_time) {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = start;
    segment.time = stream_time;
    ASSERT_TRUE(send(gst_event_new_segment(&segment)));
  }
  gint64 position() {
    gint64 position = -1;
    GstPad* source = gst_element_get_static_pad(element_, "src");
    EXPECT_TRUE(gst_pad_query_position(source, GST_FORMAT_TIME, &position));
    gst_object_unref(source);
    return position;
  }
};

TEST_F(PositionTest, IsTheLastPushedFramesStreamTime) {
  play();
  push_frames(0, 14);  // 0 to 13 are in, none is out: a window's first frame alone is final
  EXPECT_EQ(position(), 0);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(position(), static_cast<gint64>(13 * kFrame));
}

TEST_F(PositionTest, OfAFrameAcrossTheSegmentsStartIsThatStart) {
  play();
  begin_segment(kFrame / 2, 100 * kFrame);
  push_frames(0, 1);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(position(), static_cast<gint64>(100 * kFrame));
}

TEST_F(PositionTest, CountsFromTheSegmentsTime) {
  play();
  begin_segment(10 * kFrame, 1000 * kFrame);
  push_frames(12, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(position(), static_cast<gint64>((1000 + 6) * kFrame));
}

TEST_F(ElementTest, FramesWithoutTimestampsStayWithoutAndAreOneClip) {
  play();
  for (int i = 0; i < 9; ++i) {
    BufferPtr buffer = frame(i);
    GST_BUFFER_PTS(buffer.get()) = GST_BUFFER_DURATION(buffer.get()) = GST_CLOCK_TIME_NONE;
    if (i == 4) GST_BUFFER_FLAG_SET(buffer.get(), GST_BUFFER_FLAG_DISCONT);
    ASSERT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  }
  EXPECT_TRUE(send_eos());
  const std::vector<Colour> expected = offline_clip(0, 9);
  for (int i = 0; i < 9; ++i) {
    const BufferPtr buffer = pull();
    ASSERT_TRUE(buffer);
    EXPECT_FALSE(GST_BUFFER_PTS_IS_VALID(buffer.get()));
    EXPECT_FALSE(GST_BUFFER_DURATION_IS_VALID(buffer.get()));
    EXPECT_EQ(GST_BUFFER_IS_DISCONT(buffer.get()) != FALSE, i == 4) << "frame " << i;
    EXPECT_EQ(colour_of(buffer.get()), expected[i]);
  }
}

TEST_F(ElementTest, InReverseFramesRunBackAndOnlyAJumpEndsTheClip) {
  play();
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  segment.rate = -1.0;
  segment.stop = segment.position = 200 * kFrame;
  ASSERT_TRUE(send(gst_event_new_segment(&segment)));
  const auto push_discont = [this](int number) {
    BufferPtr buffer = frame(number);
    GST_BUFFER_FLAG_SET(buffer.get(), GST_BUFFER_FLAG_DISCONT);
    EXPECT_EQ(push_buffer(std::move(buffer)), GST_FLOW_OK);
  };
  // Each group of pictures begins with DISCONT.
  for (int number = 199; number > 189; --number) {
    number % 5 == 4 ? push_discont(number) : push_frames(number, 1);
  }
  EXPECT_EQ(gst_harness_buffers_received(harness_), 0) << "running back is no jump here";
  push_discont(100);
  EXPECT_EQ(gst_harness_buffers_received(harness_), 10) << "95 frames skipped are one";
  push_discont(101);
  EXPECT_EQ(gst_harness_buffers_received(harness_), 11) << "and so is running forth";
  EXPECT_TRUE(send_eos());
  gint64 position = -1;
  GstPad* source = gst_element_get_static_pad(element_, "src");
  EXPECT_TRUE(gst_pad_query_position(source, GST_FORMAT_TIME, &position));
  gst_object_unref(source);
  EXPECT_EQ(position, static_cast<gint64>(101 * kFrame));
}

TEST_F(ElementTest, ASegmentSeekEndsItsClipWithSegmentDone) {
  play();
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  segment.flags = GST_SEGMENT_FLAG_SEGMENT;
  ASSERT_TRUE(send(gst_event_new_segment(&segment)));
  Recorder recorder(element_);
  push_frames(0, 4);
  EXPECT_TRUE(send(gst_event_new_segment_done(GST_FORMAT_TIME, 4 * kFrame)));
  ASSERT_TRUE(send(gst_event_new_segment(&segment)));
  push_frames(0, 4);
  EXPECT_TRUE(send(gst_event_new_segment_done(GST_FORMAT_TIME, 4 * kFrame)));
  EXPECT_EQ(shorten(recorder.log()),
            (Log{"frames 0-3", "segment-done", "segment", "frames 4-7", "segment-done"}));
  EXPECT_EQ(pull_colours(4), offline_clip(0, 4));
  EXPECT_EQ(pull_colours(4), offline_clip(0, 4));
}

constexpr const char* kInterlaced =
    "video/x-raw,format=RGB,width=8,height=6,framerate=25/1,interlace-mode=interleaved";

TEST_F(ElementTest, InterlacedVideoIsRefusedOnceWithAReason) {
  play();
  send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kInterlaced)).get()));
  EXPECT_EQ(push(0), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_EQ(push(1), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_TRUE(messages_->one_error(GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE, "deinterlace"));
  send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kCaps8x6)).get()));
  push_frames(0, 3);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(3), offline_clip(0, 3));
}

TEST_F(ElementTest, WhatIsRefusedAgainInANewStreamIsToldAgain) {
  const CapsPtr interlaced(gst_caps_from_string(kInterlaced));
  const CapsPtr good(gst_caps_from_string(kCaps8x6));
  play();
  for (int stream = 0; stream < 2; ++stream) {
    push_frames(0, 1);
    send(gst_event_new_caps(interlaced.get()));
    EXPECT_EQ(push(1), GST_FLOW_NOT_NEGOTIATED);
    EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), stream + 1);
    EXPECT_TRUE(send(gst_event_new_flush_start()));
    EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
    send(gst_event_new_stream_start("another"));
    send(gst_event_new_caps(good.get()));
    send_segment();
  }
}

}  // namespace
}  // namespace normalcrafter
