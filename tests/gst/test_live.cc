// Live sources: dropping, latency, statistics.
#include "element_fixture.h"

namespace normalcrafter {
namespace {

class LiveTest : public ElementTest {
 protected:
  GstClockTime reported_latency() {
    GstPad* source = gst_element_get_static_pad(element_, "src");
    GstQuery* query = gst_query_new_latency();
    GstClockTime min = 0;
    EXPECT_TRUE(gst_pad_query(source, query));
    gst_query_parse_latency(query, nullptr, &min, nullptr);
    gst_query_unref(query);
    gst_object_unref(source);
    return min;
  }

  /// Frames 0 to 13 are with the network, 14 and 15 fill the queue.
  void fill(const char* leaky) {
    gst_util_set_object_arg(G_OBJECT(element_), "leaky", leaky);
    g_object_set(element_, "max-size-buffers", 2, nullptr);
    controls().block_windows = true;
    play();
    for (int i = 0; i < 14; ++i) {
      ASSERT_EQ(push(i), GST_FLOW_OK);
      ASSERT_TRUE(eventually([&] { return stat("frames-in") == static_cast<guint64>(i) + 1; }));
    }
    push_frames(14, 2);
  }

  std::vector<int> pull_numbers(int count, std::vector<int>* disconts) {
    std::vector<int> numbers;
    for (int i = 0; i < count; ++i) {
      const BufferPtr buffer = pull();
      if (!buffer) break;
      numbers.push_back(static_cast<int>(GST_BUFFER_PTS(buffer.get()) / kFrame));
      if (GST_BUFFER_IS_DISCONT(buffer.get())) disconts->push_back(numbers.back());
    }
    return numbers;
  }
};

TEST_F(LiveTest, LeakyUpstreamDropsArrivingFramesAndMarksTheNext) {
  fill("upstream");
  push_frames(16, 4);  // dropped
  EXPECT_EQ(stat("frames-dropped"), 4u);
  controls().block_windows = false;
  ASSERT_TRUE(eventually([this] { return stat("frames-in") == 16; }));
  push_frames(20, 1);
  EXPECT_TRUE(send_eos());
  std::vector<int> disconts;
  std::vector<int> expected;
  for (int i = 0; i < 16; ++i) expected.push_back(i);
  expected.push_back(20);
  EXPECT_EQ(pull_numbers(17, &disconts), expected);
  EXPECT_EQ(disconts, std::vector<int>{20});
  EXPECT_EQ(controls().clips, 1) << "own drops do not restart the window";
}

TEST_F(LiveTest, LeakyDownstreamDropsTheOldestWaitingFrame) {
  fill("downstream");
  push_frames(16, 3);  // 14, 15 and 16 are dropped
  EXPECT_EQ(stat("frames-dropped"), 3u);
  controls().block_windows = false;
  EXPECT_TRUE(send_eos());
  std::vector<int> disconts;
  std::vector<int> expected;
  for (int i = 0; i < 14; ++i) expected.push_back(i);
  expected.push_back(17);
  expected.push_back(18);
  EXPECT_EQ(pull_numbers(16, &disconts), expected);
  EXPECT_EQ(disconts, std::vector<int>{17});
  EXPECT_EQ(controls().clips, 1);
}

TEST_F(LiveTest, LatencyCoversTheFramesHeldAndGrowsWithASlowNetwork) {
  play();
  // Frame 8 waits for its decode chunk (8 to 11), frame 11 for the window from 20, frame 33.
  EXPECT_EQ(reported_latency(), 25 * kFrame);
  controls().window_ms = 1000;
  push_frames(0, 14);
  EXPECT_TRUE(messages_->wait(GST_MESSAGE_LATENCY));
  EXPECT_GE(reported_latency(), 25 * GST_SECOND / 10 + GST_SECOND);
}

TEST_F(LiveTest, AnotherFrameRateIsAnotherLatencyAndSaysSo) {
  play();
  EXPECT_EQ(reported_latency(), 25 * kFrame);
  send(gst_event_new_caps(
      CapsPtr(gst_caps_from_string("video/x-raw,format=RGB,width=8,height=6,framerate=50/1"))
          .get()));
  EXPECT_EQ(messages_->count(GST_MESSAGE_LATENCY), 1);
  EXPECT_EQ(reported_latency(), 25 * kFrame / 2);
  send(gst_event_new_caps(
      CapsPtr(gst_caps_from_string("video/x-raw,format=RGB,width=8,height=6,framerate=1/1"))
          .get()));
  EXPECT_EQ(messages_->count(GST_MESSAGE_LATENCY), 2);
  EXPECT_EQ(reported_latency(), 25 * GST_SECOND);
}

TEST_F(LiveTest, AnUnknownFrameRateCountsAsTwentyFive) {
  play("video/x-raw,format=RGB,width=8,height=6,framerate=0/1");
  EXPECT_EQ(reported_latency(), 25 * kFrame);
}

TEST_F(LiveTest, TheRepeatedTailHasTheLowerLatency) {
  gst_util_set_object_arg(G_OBJECT(element_), "tail-mode", "repeat");
  g_object_set(element_, "vae-decode-chunk-size", 1, nullptr);
  play();
  EXPECT_EQ(reported_latency(), 13 * kFrame);
  push_frames(0, 14);
  EXPECT_TRUE(eventually([this] { return gst_harness_buffers_received(harness_) == 10; }));
}

TEST_F(LiveTest, StatisticsCountWhatHappened) {
  play();
  push_frames(0, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(stat("frames-in"), 15u);
  EXPECT_EQ(stat("frames-out"), 15u);
  EXPECT_EQ(stat("frames-dropped"), 0u);
  EXPECT_EQ(stat("windows"), 2u);
  GstStructure* stats = nullptr;
  g_object_get(element_, "stats", &stats, nullptr);
  EXPECT_STREQ(gst_structure_get_string(stats, "device"), "cpu");
  EXPECT_STREQ(gst_structure_get_string(stats, "dtype"), "float32");
  EXPECT_TRUE(gst_structure_has_field_typed(stats, "unet-seconds", G_TYPE_DOUBLE));
  gst_structure_free(stats);
}

TEST_F(LiveTest, DownstreamCannotPull) {
  play();
  GstPad* source = gst_element_get_static_pad(element_, "src");
  GstQuery* query = gst_query_new_scheduling();
  EXPECT_TRUE(gst_pad_query(source, query));
  EXPECT_FALSE(gst_query_has_scheduling_mode(query, GST_PAD_MODE_PULL));
  gst_query_unref(query);
  gst_object_unref(source);
}

}  // namespace
}  // namespace normalcrafter
