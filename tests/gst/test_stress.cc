// Everything at once, from several threads, at random (case 18). NORMALCRAFTER_STRESS_SECONDS sets
// how long; NORMALCRAFTER_STRESS_SEED repeats a run's choices.
#include <cstdlib>
#include <random>
#include <utility>

#include "element_fixture.h"

namespace normalcrafter {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = g_getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

class StressTest : public ElementTest {
 protected:
  /// What a source does: frames, and now and then an event.
  void stream(unsigned seed) {
    std::minstd_rand random(seed);
    for (int number = 0; running_; ++number) {
      const std::lock_guard lock(streaming_);
      if (std::exchange(new_stream_, false)) begin_stream();
      switch (random() % 30) {
        case 0:
          send(gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "title", nullptr)));
          break;
        case 1:
          send(gst_event_new_gap(number * kFrame, kFrame));
          break;
        case 2:
          begin_segment();
          break;
        case 3:
          send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kOtherCaps)).get()));
          break;
        case 4:
          send_eos();
          new_stream_ = true;
          break;
        case 5:
          send(gst_video_event_new_downstream_force_key_unit(0, 0, 0, FALSE, 1));
          break;
        case 6:
          send(gst_event_new_segment_done(GST_FORMAT_TIME, number * kFrame));
          break;
        case 7:
          ask(gst_query_new_drain());
          break;
        case 8:
          ask(gst_query_new_allocation(CapsPtr(gst_caps_from_string(kCaps8x6)).get(), TRUE));
          break;
        case 9:
          push_discont(number);
          break;
        case 10:
          send(gst_event_new_gap(number * kFrame, GST_CLOCK_TIME_NONE));
          break;
        case 11:
          push_without_time(number);
          break;
        default:
          push(number);
          break;
      }
    }
  }

  void push_discont(int number) {
    BufferPtr buffer = frame(number);
    GST_BUFFER_FLAG_SET(buffer.get(), GST_BUFFER_FLAG_DISCONT);
    push_buffer(std::move(buffer));
  }

  void push_without_time(int number) {
    BufferPtr buffer = frame(number);
    GST_BUFFER_PTS(buffer.get()) = GST_CLOCK_TIME_NONE;
    push_buffer(std::move(buffer));
  }

  /// As upstream asks.
  void ask(GstQuery* query) {
    GstPad* sink = gst_element_get_static_pad(element_, "sink");
    gst_pad_query(sink, query);
    gst_object_unref(sink);
    gst_query_unref(query);
  }

  void begin_segment() {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    send(gst_event_new_segment(&segment));
  }

  void begin_stream() {
    send(gst_event_new_stream_start("stress"));
    send(gst_event_new_caps(CapsPtr(gst_caps_from_string(kCaps8x6)).get()));
    begin_segment();
  }

  /// What applications do: seeks, state changes, properties.
  void control(unsigned seed) {
    std::minstd_rand random(seed);
    while (running_) {
      switch (random() % 4) {
        case 0:
          flush();
          break;
        case 1:
          restart(random() % 2 ? GST_STATE_READY : GST_STATE_NULL);
          break;
        case 2:
          gst_harness_push_upstream_event(
              harness_, gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 2.0, GST_SECOND, 0));
          break;
        default:
          gst_harness_push_upstream_event(harness_, gst_event_new_reconfigure());
          break;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    }
  }

  struct Range {
    const char* property;
    int least, most, preset;
  };
  /// All but those that name a model or a device; none of the values is refused with the others'.
  static constexpr Range kRanges[] = {{"alpha", 0, 1, 0},
                                      {"axes", 0, 3, 0},
                                      {"clip-chunk-size", 1, 20, 16},
                                      {"clip-resize", 0, 1, 0},
                                      {"discont-threshold", 0, 1000000000, 1000000000},
                                      {"flip-x", 0, 1, 0},
                                      {"flip-y", 0, 1, 0},
                                      {"flip-z", 0, 1, 0},
                                      {"leaky", 0, 2, 0},
                                      {"max-resolution", 3, 9, 1024},
                                      {"max-size-buffers", 1, 5, 14},
                                      {"offload-after", 0, 1, 1},
                                      {"offload-mode", 0, 1, 0},
                                      {"output-size", 0, 1, 0},
                                      {"renormalize", 0, 1, 1},
                                      {"restart-on-key-unit", 0, 1, 0},
                                      {"step-size", 1, 10, 10},
                                      {"tail-mode", 0, 1, 0},
                                      {"threads", 0, 4, 0},
                                      {"vae-decode-chunk-size", 1, 6, 4},
                                      {"vae-encode-chunk-size", 1, 9, 7},
                                      {"window-size", 10, 15, 14},
                                      {"windows-per-pass", 1, 3, 1}};

  void set(const Range& range, int value) {
    gst_util_set_object_arg(G_OBJECT(element_), range.property, std::to_string(value).c_str());
  }

  /// And several of them at once.
  void set_properties(unsigned seed) {
    std::minstd_rand random(seed);
    while (running_) {
      const unsigned choice = random() % (std::size(kRanges) + 1);
      if (choice < std::size(kRanges)) {
        const Range& range = kRanges[choice];
        set(range, range.least + static_cast<int>(random() % (range.most - range.least + 1)));
      } else {
        g_object_set(element_, "model", models_[random() % 2].c_str(), nullptr);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    }
  }

  /// As a seek does it: the flush gets the source out of its push, and only then ends.
  void flush() {
    send(gst_event_new_flush_start());
    const std::lock_guard lock(streaming_);
    send(gst_event_new_flush_stop(TRUE));
    new_stream_ = true;
  }

  void restart(GstState by_way_of) {
    gst_element_set_state(element_, by_way_of);
    const std::lock_guard lock(streaming_);
    gst_element_set_state(element_, GST_STATE_PLAYING);
    new_stream_ = true;
  }

  /// What sinks and monitors do: take frames, ask.
  void observe() {
    GstPad* source = gst_element_get_static_pad(element_, "src");
    while (running_) {
      gint64 position;
      gst_pad_query_position(source, GST_FORMAT_TIME, &position);
      GstQuery* latency = gst_query_new_latency();
      gst_pad_query(source, latency);
      gst_query_unref(latency);
      gst_caps_unref(gst_pad_query_caps(source, nullptr));
      stat("frames-out");
      while (BufferPtr buffer{gst_harness_try_pull(harness_)}) {
      }
      while (EventPtr event{gst_harness_try_pull_event(harness_)}) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    gst_object_unref(source);
  }

  // With frames as large as the first caps'.
  static constexpr const char* kOtherCaps =
      "video/x-raw,format=RGB,width=8,height=6,framerate=50/1";
  std::vector<std::string> models_;  ///< written before the element reads them
  std::atomic<bool> running_{true};
  std::mutex streaming_;  ///< what a source's stream lock is
  bool new_stream_ = false;
};

TEST_F(StressTest, LeavesAnElementThatPlaysACleanClip) {
  const int seed =
      from_environment("NORMALCRAFTER_STRESS_SEED", static_cast<int>(std::random_device{}() >> 1));
  const int seconds = from_environment("NORMALCRAFTER_STRESS_SECONDS", 2);
  RecordProperty("seed", seed);
  SCOPED_TRACE("NORMALCRAFTER_STRESS_SEED=" + std::to_string(seed));
  controls().jitter_ms = 3;
  models_ = {model("good", "good"), model("other", "good")};
  play();
  std::thread source([&] { stream(seed); });
  std::thread application([&] { control(seed + 1); });
  std::thread settings([&] { set_properties(seed + 2); });
  std::thread more_settings([&] { set_properties(seed + 3); });
  std::thread observer([&] { observe(); });
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  running_ = false;
  application.join();
  settings.join();
  more_settings.join();
  source.join();
  observer.join();

  for (const Range& range : kRanges) set(range, range.preset);
  restart(GST_STATE_READY);
  begin_stream();
  while (BufferPtr left{gst_harness_try_pull(harness_)}) {
  }
  push_frames(0, 24);
  EXPECT_TRUE(send_eos());
  EXPECT_EQ(pull_colours(24), offline_clip(0, 24));
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(messages_->errors(), std::vector<std::string>());
}

}  // namespace
}  // namespace normalcrafter
