// Where the element's frames pass: they are counted and given to the writers.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "failure.h"
#include "normal_frame.h"

namespace normalcrafter::convert {

/// The caps of such frames, as text.
const char* caps_text(Samples samples);

/// Which of the frames that come out are written.
struct Written {
  std::int64_t discard = 0;          ///< dropped at the beginning
  std::int64_t first = 0;            ///< the clip's number of the first one that is written
  std::optional<std::int64_t> most;  ///< what comes after that many is dropped
};

/// Gives what passes a source pad to the sinks, on the stream's thread, numbered within the clip.
/// Where a sink fails the stream ends in an error, and failure() says which.
class FrameTap {
 public:
  struct Request {
    Samples samples = Samples::Rgb8;
    Written written;
    bool one_size = false;  ///< another size than the first frame's is a Failure (Output)
    std::vector<FrameSink*> sinks;
    std::function<void()> counted;  ///< a frame has been written
  };

  /// The pad outlives the tap.
  FrameTap(GstPad* pad, Request request);
  ~FrameTap();
  FrameTap(const FrameTap&) = delete;
  FrameTap& operator=(const FrameTap&) = delete;

  /// Frames that the sinks got.
  std::int64_t frames() const { return frames_; }
  /// The time of the first of them, as in NormalFrame.
  std::optional<std::int64_t> beginning() const;
  std::optional<Failure> failure() const { return failure_.get(); }

 private:
  static GstPadProbeReturn on_buffer(GstPad* pad, GstPadProbeInfo* info, gpointer self);
  bool take(GstBuffer* buffer);
  void give(const NormalFrame& frame);
  void check_size(const NormalFrame& frame);

  GstPad* pad_;
  Request request_;
  gulong probe_;
  std::int64_t next_ = 0;  ///< frames since the network began
  int width_ = 0;
  int height_ = 0;
  std::atomic<std::int64_t> frames_{0};
  FirstFailure failure_;
  mutable std::mutex mutex_;
  std::optional<std::int64_t> beginning_;  ///< guarded by mutex_
};

}  // namespace normalcrafter::convert
