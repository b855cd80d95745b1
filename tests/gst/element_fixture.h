// An element with the fake engine, between the pads of a GstHarness.
#pragma once

#include <gst/check/gstharness.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_engine.h"
#include "gst_ptr.h"
#include "normalcrafter/error.h"
#include "offline.h"

namespace normalcrafter {

constexpr const char* kCaps8x6 = "video/x-raw,format=RGB,width=8,height=6,framerate=25/1";
constexpr GstClockTime kFrame = 40 * GST_MSECOND;

/// True as soon as `condition` holds; false after ten seconds.
bool eventually(const std::function<bool()>& condition);

/// A bus of the element's own, and the messages on it.
class Messages {
 public:
  explicit Messages(GstElement* element);
  ~Messages();

  /// Takes what has been posted so far, and counts it.
  int count(GstMessageType type);
  /// Waits for one. Kept afterwards.
  bool wait(GstMessageType type);
  /// "resource:3 text" for each error so far.
  std::vector<std::string> errors();
  /// True if there is exactly one error, of this domain and code, and its text contains `text`.
  testing::AssertionResult one_error(GQuark domain, int code, const std::string& text);
  std::vector<int> progress();  ///< GstProgressType
  /// Of the element messages of that name.
  std::vector<const GstStructure*> structures(const char* name);
  GstBus* bus() { return bus_; }

 private:
  void collect();
  GstBus* bus_;
  std::vector<GstMessage*> messages_;
};

class ElementTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// A directory that the fake engine takes for a model with this content.
  std::string model(const std::string& name, const std::string& content);

  /// Makes the element, not yet in a harness. The harness's tear-down frees it.
  void make_element();
  /// Puts it between pads and plays it.
  void play(const char* caps = kCaps8x6);
  /// To NULL and out of the harness. play() can follow.
  void stop();

  GstFlowReturn push(int number, const char* caps = kCaps8x6);
  GstFlowReturn push_buffer(BufferPtr buffer);
  /// Pushes test frames first, first+1, ...; all must be taken.
  void push_frames(int first, int count);
  BufferPtr frame(int number, const char* caps = kCaps8x6);
  bool send(GstEvent* event);
  bool send_eos() { return send(gst_event_new_eos()); }
  void send_segment();

  BufferPtr pull();
  std::vector<Colour> pull_colours(int count);
  /// No buffer has left that was not pulled.
  bool nothing_left() { return gst_harness_buffers_in_queue(harness_) == 0; }

  static Colour colour_of(GstBuffer* buffer, const char* caps = kCaps8x6);

  guint64 stat(const char* field);

  GstElement* element_ = nullptr;
  GstHarness* harness_ = nullptr;
  std::unique_ptr<Messages> messages_;
  static FakeControls& controls();
  /// The fake engine's window that has this frame fails so.
  static void fail_at(int frame, ErrorCode code);

 private:
  std::filesystem::path directory_;
};

/// What passes the element's source pad, in order: "frame 3", "tag", "eos".
class Recorder {
 public:
  explicit Recorder(GstElement* element);
  ~Recorder();
  std::vector<std::string> log();

 private:
  static GstPadProbeReturn record(GstPad*, GstPadProbeInfo* info, gpointer self);
  GstPad* pad_;
  gulong probe_;
  std::mutex mutex_;
  std::vector<std::string> log_;
  int frames_ = 0;
};

/// Blocks the source pad's pushes of buffers until destroyed, or flushed.
class Blockage {
 public:
  explicit Blockage(GstElement* element);
  ~Blockage();
  bool wait();  ///< until a push is blocked

 private:
  GstPad* pad_;
  gulong probe_;
};

}  // namespace normalcrafter
