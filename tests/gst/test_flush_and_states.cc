// Flushes and state changes in every awkward moment (cases 7, 8, 9 and 10).
#include <random>
#include <utility>

#include "element_fixture.h"

namespace normalcrafter {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSoon = std::chrono::seconds(2);

class FlushTest : public ElementTest {
 protected:
  void flush() {
    EXPECT_TRUE(send(gst_event_new_flush_start()));
    EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
    send_segment();
  }

  /// After a flush a clip must come out as if nothing had been before it.
  void expect_clean_clip() {
    gst_harness_set_drop_buffers(harness_, FALSE);
    while (BufferPtr left{gst_harness_try_pull(harness_)}) {
    }
    push_frames(200, 15);
    EXPECT_TRUE(send_eos());
    EXPECT_EQ(pull_colours(15), offline_clip(200, 15));
    EXPECT_TRUE(nothing_left());
    EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
  }
};

TEST_F(FlushTest, WhileIdle) {
  play();
  push_frames(0, 5);
  flush();
  expect_clean_clip();
}

TEST_F(FlushTest, WhileTheNetworkRunsReturnsAtOnce) {
  controls().block_windows = true;
  play();
  push_frames(0, 14);
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  const auto start = Clock::now();
  flush();
  EXPECT_LT(Clock::now() - start, kSoon);
  EXPECT_TRUE(eventually([] { return controls().in_window == 0; })) << "the network goes on";
  controls().block_windows = false;
  expect_clean_clip();
}

TEST_F(FlushTest, WhileTheQueueIsFullFreesUpstream) {
  g_object_set(element_, "max-size-buffers", 2, nullptr);
  controls().block_windows = true;
  play();
  push_frames(0, 16);
  GstFlowReturn result = GST_FLOW_OK;
  std::thread upstream([&] { result = push(16); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  upstream.join();
  EXPECT_EQ(result, GST_FLOW_FLUSHING);
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  controls().block_windows = false;
  expect_clean_clip();
}

TEST_F(FlushTest, WhileAPushBlocks) {
  play();
  auto blockage = std::make_unique<Blockage>(element_);
  push_frames(0, 24);
  ASSERT_TRUE(blockage->wait());
  const auto start = Clock::now();
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  blockage.reset();
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  EXPECT_LT(Clock::now() - start, kSoon);
  expect_clean_clip();
}

TEST_F(FlushTest, WhileEosDrains) {
  controls().block_windows = true;
  play();
  push_frames(0, 5);
  bool passed = true;
  Recorder recorder(element_);
  std::thread upstream([&] { passed = send_eos(); });
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  upstream.join();
  EXPECT_FALSE(passed) << "an EOS whose frames were thrown away went on";
  EXPECT_EQ(recorder.log(), std::vector<std::string>{"flush-start"});
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  controls().block_windows = false;
  expect_clean_clip();
}

TEST_F(FlushTest, WhileLoadingLetsTheWeightsLoad) {
  controls().block_loading = true;
  play();
  push_frames(0, 5);
  ASSERT_TRUE(eventually([] { return controls().loading == 1; }));
  const auto start = Clock::now();
  flush();
  EXPECT_LT(Clock::now() - start, kSoon);
  controls().block_loading = false;
  expect_clean_clip();
  EXPECT_EQ(controls().loads, 1);
  const std::vector<int> progress = messages_->progress();
  EXPECT_EQ(std::count(progress.begin(), progress.end(), GST_PROGRESS_TYPE_CANCELED), 0);
}

TEST_F(FlushTest, WhileAFrameWaitsForTheWeightsKeepsItFromTheNetwork) {
  g_object_set(element_, "window-size", 1, "step-size", 1, nullptr);
  // After a failure it is the next frame that loads.
  controls().load_fault = static_cast<int>(ErrorCode::NetworkFailed);
  play();
  ASSERT_TRUE(messages_->wait(GST_MESSAGE_ERROR));
  controls().load_fault = -1;
  controls().block_loading = true;
  flush();
  push_frames(0, 1);
  ASSERT_TRUE(eventually([] { return controls().loading == 1; }));
  flush();
  controls().block_loading = false;
  ASSERT_TRUE(eventually([] { return controls().loads == 1; }));
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(controls().windows, 0);
}

TEST_F(FlushTest, FromWithinAPush) {
  play();
  struct Seek {
    GstPad* sink;
    bool begun = false;
    std::atomic<bool> done{false};
  } seek;
  seek.sink = gst_element_get_static_pad(element_, "sink");
  // As a probe or a handler that seeks upstream does it, on the element's own thread.
  const gulong probe = gst_pad_add_probe(
      harness_->sinkpad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad*, GstPadProbeInfo*, gpointer data) {
        auto* self = static_cast<Seek*>(data);
        if (std::exchange(self->begun, true)) return GST_PAD_PROBE_OK;
        gst_pad_send_event(self->sink, gst_event_new_flush_start());
        gst_pad_send_event(self->sink, gst_event_new_flush_stop(TRUE));
        self->done = true;
        return GST_PAD_PROBE_DROP;
      },
      &seek, nullptr);
  for (int i = 0; i < 24 && push(i) == GST_FLOW_OK; ++i) {
  }
  EXPECT_TRUE(eventually([&] { return seek.done.load(); }));
  gst_pad_remove_probe(harness_->sinkpad, probe);
  gst_object_unref(seek.sink);
  send_segment();
  expect_clean_clip();
}

TEST_F(FlushTest, KeepsQueuedTagsAndDropsOtherEvents) {
  controls().block_windows = true;
  play();
  push_frames(0, 14);
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  EXPECT_TRUE(send(gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "kept", nullptr))));
  EXPECT_TRUE(send(gst_event_new_gap(0, kFrame)));
  Recorder recorder(element_);
  flush();
  controls().block_windows = false;
  push_frames(14, 1);
  EXPECT_TRUE(send_eos());
  const std::vector<std::string> log = recorder.log();
  EXPECT_EQ(std::count(log.begin(), log.end(), "gap"), 0);
  GstPad* source = gst_element_get_static_pad(element_, "src");
  GstEvent* tag = gst_pad_get_sticky_event(source, GST_EVENT_TAG, 0);
  EXPECT_NE(tag, nullptr);
  if (tag != nullptr) gst_event_unref(tag);
  gst_object_unref(source);
}

TEST_F(FlushTest, AllocationIsAnsweredMeanwhile) {
  play();
  push_frames(0, 5);
  GstPad* sink = gst_element_get_static_pad(element_, "sink");
  const CapsPtr caps(gst_caps_from_string(kCaps8x6));
  const auto ask = [&] {
    GstQuery* query = gst_query_new_allocation(caps.get(), TRUE);
    const bool answered = gst_pad_query(sink, query);
    const bool meta = gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
    gst_query_unref(query);
    return answered && meta;
  };
  EXPECT_TRUE(ask()) << "strided buffers are welcome";
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  ask();
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  EXPECT_TRUE(ask());
  gst_object_unref(sink);
  expect_clean_clip();
}

TEST_F(FlushTest, WhileDownstreamHoldsAnAllocationQuery) {
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
  // As a queue does it: the query waits until the frames before it are gone, or a flush.
  struct Downstream {
    std::atomic<bool> asked{false};
    std::atomic<bool> flushing{false};
  } downstream;
  GstPad* source = gst_element_get_static_pad(element_, "src");
  const gulong queries = gst_pad_add_probe(
      source, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
      [](GstPad*, GstPadProbeInfo* info, gpointer data) {
        if (GST_QUERY_TYPE(GST_PAD_PROBE_INFO_QUERY(info)) != GST_QUERY_ALLOCATION) {
          return GST_PAD_PROBE_OK;
        }
        auto* state = static_cast<Downstream*>(data);
        state->asked = true;
        while (!state->flushing) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return GST_PAD_PROBE_DROP;
      },
      &downstream, nullptr);
  const gulong flushes = gst_pad_add_probe(
      source, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_EVENT_FLUSH),
      [](GstPad*, GstPadProbeInfo*, gpointer data) {
        static_cast<Downstream*>(data)->flushing = true;
        return GST_PAD_PROBE_OK;
      },
      &downstream, nullptr);
  std::thread upstream([&] {
    gst_harness_set_src_caps_str(harness_, kCaps8x6);
    for (int i = 0; i < 30 && push(i) == GST_FLOW_OK; ++i) {
    }
  });
  ASSERT_TRUE(eventually([&] { return downstream.asked.load(); }));
  const auto start = Clock::now();
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  upstream.join();
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  EXPECT_LT(Clock::now() - start, kSoon);
  gst_pad_remove_probe(source, queries);
  gst_pad_remove_probe(source, flushes);
  gst_object_unref(source);
  send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kCaps8x6)).get()));
  send_segment();
  expect_clean_clip();
}

TEST_F(FlushTest, AStopWithoutAStartAndTwoStartsDoNoHarm) {
  play();
  push_frames(0, 5);
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  push_frames(0, 5);
  EXPECT_TRUE(send(gst_event_new_flush_start()));
  send(gst_event_new_flush_start());
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  expect_clean_clip();
}

TEST_F(FlushTest, AStopWithoutAStartWhileTheNetworkRuns) {
  controls().block_windows = true;
  play();
  push_frames(0, 14);
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
  send_segment();
  controls().block_windows = false;
  expect_clean_clip();
}

TEST_F(FlushTest, ManyTimesInARow) {
  controls().jitter_ms = 3;
  play();
  for (int i = 0; i < 50; ++i) {
    std::thread upstream([&] {
      for (int f = 0; f < 30 && push(f) == GST_FLOW_OK; ++f) {
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(300 * (i % 10)));
    EXPECT_TRUE(send(gst_event_new_flush_start()));
    upstream.join();
    EXPECT_TRUE(send(gst_event_new_flush_stop(TRUE)));
    send_segment();
  }
  expect_clean_clip();
}

class StateTest : public ElementTest {
 protected:
  void to_null_soon() {
    const auto start = Clock::now();
    EXPECT_EQ(gst_element_set_state(element_, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
    EXPECT_LT(Clock::now() - start, kSoon);
  }
};

TEST_F(StateTest, UpAndDownTwentyTimesWithAClipInEach) {
  for (int i = 0; i < 20; ++i) {
    play();
    push_frames(0, i);
    EXPECT_TRUE(send_eos());
    EXPECT_EQ(pull_colours(i), offline_clip(0, i));
    stop();
    EXPECT_EQ(controls().sessions, 0);
    EXPECT_EQ(controls().models, 0) << "READY to NULL gives the model back";
  }
}

TEST_F(StateTest, TheModelStaysFromRunToRunUntilNull) {
  g_object_set(element_, "offload-after", FALSE, nullptr);
  play();
  ASSERT_TRUE(eventually([] { return controls().loads == 1; }));
  gst_element_set_state(element_, GST_STATE_READY);
  EXPECT_EQ(controls().models, 1);
  EXPECT_EQ(controls().sessions, 0);
  gst_element_set_state(element_, GST_STATE_PLAYING);
  EXPECT_EQ(controls().loads, 1);
  to_null_soon();
  EXPECT_EQ(controls().models, 0);
}

TEST_F(StateTest, OffloadAfterGivesMemoryBackAtReady) {
  play();
  ASSERT_TRUE(eventually([] { return controls().loads == 1; }));
  gst_element_set_state(element_, GST_STATE_READY);
  EXPECT_EQ(controls().offloads, 1);
}

TEST_F(StateTest, NullWhileTheNetworkRuns) {
  controls().block_windows = true;
  play();
  push_frames(0, 14);
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  to_null_soon();
}

TEST_F(StateTest, NullWhileWeightsLoadTellsThatItWasCancelled) {
  controls().block_loading = true;
  play();
  ASSERT_TRUE(eventually([] { return controls().loading == 1; }));
  to_null_soon();
  const std::vector<int> progress = messages_->progress();
  ASSERT_FALSE(progress.empty());
  EXPECT_EQ(progress.back(), GST_PROGRESS_TYPE_CANCELED);
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

TEST_F(StateTest, NullWhileUpstreamWaitsForRoom) {
  g_object_set(element_, "max-size-buffers", 1, nullptr);
  controls().block_windows = true;
  play();
  push_frames(0, 15);
  GstFlowReturn result = GST_FLOW_OK;
  std::thread upstream([&] { result = push(15); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  to_null_soon();
  upstream.join();
  EXPECT_EQ(result, GST_FLOW_FLUSHING);
}

TEST_F(StateTest, NullWhileAPushBlocks) {
  play();
  Blockage blockage(element_);
  push_frames(0, 24);
  ASSERT_TRUE(blockage.wait());
  to_null_soon();
}

TEST_F(StateTest, NullWhileEosDrains) {
  controls().block_windows = true;
  play();
  push_frames(0, 5);
  bool passed = true;
  std::thread upstream([&] { passed = send_eos(); });
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  to_null_soon();
  upstream.join();
  EXPECT_FALSE(passed);
}

TEST_F(StateTest, NullWhileASessionIsMadeForNewSettings) {
  g_object_set(element_, "window-size", 1, "step-size", 1, nullptr);
  play();
  push_frames(0, 1);
  ASSERT_TRUE(eventually([] { return controls().windows == 1; }));
  controls().block_creation = controls().block_windows = true;
  g_object_set(element_, "flip-x", TRUE, nullptr);
  push_frames(1, 1);
  ASSERT_TRUE(eventually([] { return controls().creating == 1; }));
  std::thread downwards([&] { to_null_soon(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  controls().block_creation = false;
  downwards.join();
  EXPECT_EQ(controls().windows, 1) << "the new session ran";
}

TEST_F(StateTest, PadsThatAreDeactivatedAndActivatedAgainPlayOn) {
  play();
  push_frames(0, 5);
  GstPad* sink = gst_element_get_static_pad(element_, "sink");
  EXPECT_TRUE(gst_pad_set_active(sink, FALSE));
  EXPECT_EQ(push(5), GST_FLOW_FLUSHING);
  EXPECT_TRUE(gst_pad_set_active(sink, TRUE));
  gst_object_unref(sink);
  send(gst_event_new_stream_start("again"));
  send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kCaps8x6)).get()));
  send_segment();
  push_frames(0, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
}

TEST_F(StateTest, PadsThatAreActivatedBeforeTheStateChangesKeepTheirSession) {
  ASSERT_EQ(gst_element_set_state(element_, GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
  controls().load_ms = 100;
  const int made = controls().sessions_made;
  GstPad* sink = gst_element_get_static_pad(element_, "sink");
  EXPECT_TRUE(gst_pad_set_active(sink, TRUE));
  gst_object_unref(sink);
  play();
  push_frames(0, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
  EXPECT_EQ(controls().sessions_made, made + 1) << "replaced while its thread used it";
}

TEST_F(StateTest, LeavingItsBinWhileWeightsLoad) {
  controls().block_loading = true;
  GstElement* bin = gst_bin_new(nullptr);
  gst_object_ref_sink(bin);
  gst_bin_add(GST_BIN(bin), element_);
  gst_element_set_state(bin, GST_STATE_PLAYING);
  ASSERT_TRUE(eventually([] { return controls().loading == 1; }));
  gst_bin_remove(GST_BIN(bin), element_);
  gst_element_set_state(bin, GST_STATE_NULL);
  gst_object_unref(bin);
  EXPECT_EQ(controls().loading, 1) << "whoever removes an element also stops it";
  to_null_soon();
  controls().block_loading = false;
  gst_element_set_bus(element_, messages_->bus());
  play();
  push_frames(0, 5);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(5), offline_clip(0, 5));
}

TEST_F(StateTest, ChangedFromSeveralThreadsAtOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the state lock is GLib's, which ThreadSanitizer does not see";
#endif
  controls().load_ms = 5;
  play();
  std::vector<std::thread> applications;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    applications.emplace_back([this, seed] {
      std::minstd_rand random(seed);
      for (int i = 0; i < 100; ++i) {
        gst_element_set_state(element_, static_cast<GstState>(GST_STATE_NULL + random() % 4));
      }
    });
  }
  for (std::thread& application : applications) application.join();
  to_null_soon();
  stop();
  play();
  push_frames(0, 15);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(15), offline_clip(0, 15));
  EXPECT_EQ(messages_->count(GST_MESSAGE_ERROR), 0);
}

class OneBlock : public StateTest {
 protected:
  static constexpr auto kBlock = std::chrono::milliseconds(300);

  void SetUp() override {
    StateTest::SetUp();
    controls().block_ms = kBlock.count();
  }
  /// Whatever the network does: when its present block has ended, READY is reached.
  void ready_within_a_block() {
    const auto start = Clock::now();
    EXPECT_EQ(gst_element_set_state(element_, GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
    EXPECT_LT(Clock::now() - start, 2 * kBlock);
    EXPECT_EQ(controls().sessions, 0) << "nothing runs on";
  }
};

TEST_F(OneBlock, IsAllThatReadyWaitsForInAWindow) {
  controls().window_ms = 100000;
  play();
  push_frames(0, 14);
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  ready_within_a_block();
}

TEST_F(OneBlock, IsAllThatReadyWaitsForWhileWeightsLoad) {
  controls().load_ms = 100000;
  play();
  push_frames(0, 3);
  ASSERT_TRUE(eventually([] { return controls().loading == 1; }));
  ready_within_a_block();
}

TEST_F(OneBlock, IsAllThatReadyWaitsForAtEndOfStream) {
  controls().window_ms = 100000;
  play();
  push_frames(0, 5);
  std::thread upstream([&] { send_eos(); });
  ASSERT_TRUE(eventually([] { return controls().in_window == 1; }));
  ready_within_a_block();
  upstream.join();
}

TEST_F(OneBlock, IsAllThatReadyWaitsForAtAnyMoment) {
  controls().window_ms = 10;
  controls().load_ms = 20;
  controls().block_ms = 5;
  for (int i = 0; i < 25; ++i) {
    play();
    std::thread upstream([&] {
      for (int f = 0; f < 60 && push(f) == GST_FLOW_OK; ++f) {
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * i));
    ready_within_a_block();
    upstream.join();
    stop();
  }
}

TEST_F(StateTest, FlushStopRacingReady) {
  for (int i = 0; i < 30; ++i) {
    play();
    push_frames(0, 15);
    EXPECT_TRUE(send(gst_event_new_flush_start()));
    std::thread upstream([&] { send(gst_event_new_flush_stop(TRUE)); });
    std::this_thread::sleep_for(std::chrono::microseconds(20 * i));
    to_null_soon();
    upstream.join();
    stop();
  }
}

}  // namespace
}  // namespace normalcrafter
