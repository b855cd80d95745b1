// The places where a stream's frames are let through or not.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "frame_range.h"

namespace normalcrafter::convert {

/// A stretch of the source in nanoseconds from its beginning; `end` is not known at first.
struct Stretch {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end;
};

/// A buffer's time from the source's beginning on `pad`; nothing if it has none.
std::optional<std::int64_t> stream_time(GstPad* pad, GstBuffer* buffer);
/// In nanoseconds; 0 if it has none.
std::int64_t duration_of(GstBuffer* buffer);

/// Holds back what comes to a source pad until it is opened, and keeps flushes (of the seek before
/// that) from what lies behind. Afterwards each buffer is judged, until end. Pads are those of
/// elements that this program made, and outlive the gate.
class Gate {
 public:
  explicit Gate(GstPad* pad);
  virtual ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open();
  /// Moves all running times so that this one becomes 0.
  void set_beginning(std::int64_t running_time);
  GstPad* pad() const { return pad_; }

 protected:
  /// Pass, drop, or end the stream in place of this buffer; on the stream's thread.
  virtual FrameRange::Verdict judge(GstBuffer* buffer) = 0;
  /// The stream ends, by itself or as judged.
  virtual void on_end() {}

 private:
  static GstPadProbeReturn on_buffer(GstPad* pad, GstPadProbeInfo* info, gpointer self);
  static GstPadProbeReturn on_event(GstPad* pad, GstPadProbeInfo* info, gpointer self);
  void end();

  GstPad* pad_;
  std::atomic<bool> ended_{false};  ///< nothing comes after it
  std::mutex mutex_;
  gulong block_;
  gulong probes_[3];
};

/// Lets the frames of a range through.
class VideoGate final : public Gate {
 public:
  /// Called once on the stream's thread: with the running time of the first frame that passes, or
  /// with 0 at the end of a stream of which none has.
  using OnBeginning = std::function<void(std::int64_t running_time)>;

  VideoGate(GstPad* pad, const RangeRequest& range, OnBeginning on_beginning);
  ~VideoGate() override;

  /// The stream ends in place of the next frame.
  void stop() { stopped_ = true; }
  /// The stream ends now, since its source has failed and gives no more frames.
  void end_now();
  std::int64_t passed() const { return passed_; }
  /// Whether the range, or stop(), ended the stream before the source did.
  bool has_cut() const { return cut_; }
  /// What has passed; the end is known when the stream has been cut.
  Stretch stretch() const;
  /// Where the last frame of the source that came here ends.
  std::int64_t source_position() const;

 protected:
  FrameRange::Verdict judge(GstBuffer* buffer) override;
  void on_end() override;

 private:
  void count(std::optional<std::int64_t> time, GstBuffer* buffer);

  FrameRange range_;
  OnBeginning on_beginning_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> cut_{false};
  std::atomic<std::int64_t> passed_{0};
  mutable std::mutex mutex_;
  Stretch stretch_;
  std::int64_t end_ = 0;       ///< of the last frame that passed
  std::int64_t position_ = 0;  ///< end of the last frame that came
};

/// Lets the audio through that belongs to the video's frames. To be opened when the first of them
/// has passed.
class AudioGate final : public Gate {
 public:
  AudioGate(GstPad* pad, const VideoGate& video) : Gate(pad), video_(video) {}
  /// Where the last audio that came here ends.
  std::int64_t position() const { return position_; }

 protected:
  FrameRange::Verdict judge(GstBuffer* buffer) override;

 private:
  const VideoGate& video_;
  std::atomic<std::int64_t> position_{0};
};

}  // namespace normalcrafter::convert
