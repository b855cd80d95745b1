// Everything a run writes, from the element's frames to files with their final names.
#pragma once

#include <gst/gst.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contact_sheet.h"
#include "frame_tap.h"
#include "gate.h"
#include "input_tap.h"
#include "options.h"
#include "output_plan.h"
#include "video_writer.h"

namespace normalcrafter::convert {

/// The elements behind the element, and the writers. They belong to the pipeline, which has to be
/// stopped before finish() and before this goes.
class Outputs {
 public:
  /// `counted` is called for each frame written, on the stream's thread. A Failure leaves no file.
  Outputs(const Options& options, const OutputPlan& plan, GstBin* pipeline, GstElement* element,
          std::function<void()> counted);

  /// Audio of the source, as much as belongs to the video's frames, after begin().
  void add_audio(GstPad* pad, const VideoGate& gate);
  /// VideoGate::OnBeginning.
  void begin(std::int64_t running_time, VideoGate& gate);
  /// Where the last audio that came ends, in nanoseconds from the source's beginning.
  std::int64_t audio_position() const;
  /// Makes GStreamer complete what it writes.
  void end_streams() const;

  std::int64_t frames() const { return tap_->frames(); }
  std::optional<std::int64_t> beginning() const { return tap_->beginning(); }
  /// What writing ended in, if it failed.
  std::optional<Failure> failure() const;
  bool is_video() const { return video_ != nullptr; }
  bool owns(GstObject* object) const { return video_ && video_->owns(object); }

  /// Completes the files and gives them their names: the output its own if it is `whole`, else the
  /// partial one. What it is then called; "" if there is none. `failed` is set to what went wrong.
  std::string finish(bool whole, std::optional<Failure>& failed);
  /// In place of finish() where nothing has run: removes the files that were opened.
  void discard();

 private:
  void build(GstElement* element, std::function<void()> counted);
  void make_preview();
  void link_elements(GstElement* element);

  Options options_;
  OutputPlan plan_;
  GstBin* pipeline_;
  std::unique_ptr<FrameSink> writer_;   ///< not for video
  std::unique_ptr<VideoWriter> video_;  ///< for video alone
  std::unique_ptr<FrameSink> preview_;
  ContactSheet* sheet_ = nullptr;  ///< the preview, if it is one
  GstElement* filter_ = nullptr;
  std::vector<std::unique_ptr<AudioGate>> audio_;
  std::unique_ptr<FrameTap> tap_;
  std::unique_ptr<InputTap> input_tap_;
};

}  // namespace normalcrafter::convert
