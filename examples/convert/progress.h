// What the user sees while a clip is converted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "failure.h"
#include "options.h"

namespace normalcrafter::convert {

/// How far a conversion is.
struct Progress {
  enum class Stage { Starting, Loading, Running, Stopping };
  Stage stage = Stage::Starting;
  int percent = 0;                    ///< of the weights, while Loading
  std::int64_t read = 0;              ///< frames that went into the element
  std::int64_t done = 0;              ///< frames that came out
  std::optional<std::int64_t> total;  ///< expected; containers are not always exact
  double rate = 0;                    ///< frames a second so far; 0: not known yet
  double left = 0;                    ///< seconds; counts if `rate` and `total` do
  std::string network;                ///< the one that computes now; "" before the first
  int network_percent = 0;            ///< of its frames in the present window
};

/// The speed, measured when frames come out: they come window by window, so the time since the last
/// one says nothing about it.
class Speed {
 public:
  /// `now`: seconds of any clock, here and below.
  void start(double now) { start_ = last_ = now; }
  void frame(double now);
  double rate() const;
  /// Seconds until `total` frames are out.
  double left(std::int64_t total, double now) const;

 private:
  double start_ = 0;
  double last_ = 0;
  std::int64_t frames_ = 0;
};

/// "75", "1:05" and "1:01:15": seconds for people.
std::string clock_text(double seconds);
/// "[#####.....]  120/250 frames, 3.2 fps, 0:41 left", at most `columns` wide.
std::string progress_text(const Progress& progress, int columns);
/// One JSON object without a line break.
std::string progress_json(const Progress& progress);

/// How a conversion ended.
struct Outcome {
  Status status = Status::Done;
  std::string message;  ///< of a failure, or what else is to be said
  std::string output;   ///< what was written, under the name that it has; "" if nothing
  std::int64_t frames = 0;
  std::optional<std::int64_t> beginning;  ///< the first frame's time in the input, in nanoseconds
  double seconds = 0;
};

/// Prints: to people on the standard error, JSON objects on the standard output.
class Reporter {
 public:
  explicit Reporter(ProgressMode mode);
  void progress(const Progress& progress);
  /// A line of its own.
  void say(const std::string& text);
  void warn(const std::string& text);
  void end(const Outcome& outcome);
  /// Milliseconds between calls of progress(): on a terminal one line is drawn over the other, so
  /// that more of them do no harm.
  unsigned interval() const;

 private:
  void line(const std::string& text, bool stays);

  ProgressMode mode_;
  bool terminal_;
  bool drawn_ = false;  ///< a progress line stands where the next one goes
};

}  // namespace normalcrafter::convert
