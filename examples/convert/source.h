// The input as a stream of decoded, upright pictures.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "failure.h"
#include "options.h"
#include "picture_feeder.h"
#include "sequence.h"

namespace normalcrafter::convert {

/// What an input is, before anything is opened.
struct InputPlan {
  std::optional<PictureList> pictures;  ///< of a sequence or a folder; else `uri` counts
  Rate rate;                            ///< of the pictures
  std::string uri;
};

/// A Failure (InputMissing) if there is no such input or it may not be read, (Usage) if it is a
/// sequence and the options have no --fps.
InputPlan plan_input(const Options& options);

/// A launch line from decoded frames of these caps to the element's: one picture a frame, since the
/// element takes no fields, and as a player shows it, since a player turns no vectors. All bits are
/// kept; what cannot be turned without losing some (deep RGB) is not turned.
std::string frames_line(GstCaps* caps);

/// The elements from a file to upright pictures. They belong to the pipeline, which has to be
/// stopped before the source goes.
class Source {
 public:
  struct Callbacks {
    std::function<void(GstPad*)> audio;  ///< a stream of audio, encoded; before data flow
    std::function<void()> known;         ///< all streams are known; on a thread of the pipeline
  };

  /// Upright pictures go to `target`. Of a sequence only those in `range` are read.
  Source(const InputPlan& plan, const RangeRequest& range, GstBin* pipeline, GstElement* target,
         Callbacks callbacks);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Where decoded frames can be held back, before they are turned.
  GstPad* gate_pad() const { return gate_pad_; }
  bool has_video() const { return has_video_; }
  bool is_pictures() const { return feeder_ != nullptr; }
  /// A sequence of which no picture is in the range.
  bool is_empty() const { return feeder_ && feeder_->is_empty(); }
  /// Where what came last of the streams that are not used (subtitles, further videos) ends, in
  /// nanoseconds from the source's beginning.
  std::int64_t unused_position() const { return unused_position_; }
  /// What setting up streams or reading pictures ended in, if it failed.
  std::optional<Failure> failure() const;

 private:
  static void on_pad(GstElement* decoder, GstPad* pad, gpointer self);
  static gboolean on_continue(GstElement* decoder, GstPad* pad, GstCaps* caps, gpointer self);
  static void on_no_more_pads(GstElement* decoder, gpointer self);
  void add_decoder(const InputPlan& plan);
  void add_pictures(const InputPlan& plan, const RangeRequest& range);
  void watch(GstElement* decoder);
  void take(GstPad* pad);
  bool link_video(GstPad* pad, GstCaps* caps);
  void leave_unused(GstPad* pad);
  static GstPadProbeReturn on_unused(GstPad* pad, GstPadProbeInfo* info, gpointer self);

  GstBin* pipeline_;
  GstElement* target_;
  Callbacks callbacks_;
  GstElement* gate_;
  GstPad* gate_pad_;
  std::unique_ptr<PictureFeeder> feeder_;
  std::atomic<bool> has_video_{false};
  std::atomic<std::int64_t> unused_position_{0};
  FirstFailure failure_;
};

}  // namespace normalcrafter::convert
