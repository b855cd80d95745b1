// How far a run is; asked on the main loop, told from any thread.
#pragma once

#include <gst/gst.h>

#include <mutex>
#include <optional>
#include <string>

#include "picture_feeder.h"
#include "progress.h"

namespace normalcrafter::convert {

/// What is known of a source's length.
struct SourceLength {
  std::optional<std::int64_t> frames;
  std::optional<std::int64_t> duration;  ///< nanoseconds
  Rate rate;
};

/// Frames of `range` that are written, of a source of that length; nothing if it cannot be told.
/// `written`: those at the range's beginning that were written before.
std::optional<std::int64_t> frames_expected(const SourceLength& length, const RangeRequest& range,
                                            std::int64_t written);

/// What a decoded stream's pad tells of its source.
SourceLength length_of(GstPad* pad);

class Tracker {
 public:
  Tracker();
  void loading(int percent);
  /// The first frames go into the network.
  void loaded();
  /// A network has computed so many of its frames in the present window.
  void network(const std::string& name, int percent);
  void stopping();
  void expect(std::optional<std::int64_t> frames);
  void frame_written();
  double seconds() const;
  Progress progress(std::int64_t read) const;

 private:
  mutable std::mutex mutex_;
  Progress progress_;
  Speed speed_;
  double began_;
};

}  // namespace normalcrafter::convert
