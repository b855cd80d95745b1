#include "tracker.h"

#include <algorithm>
#include <cmath>

#include "gst_handles.h"

namespace normalcrafter::convert {
namespace {

double now() {
  return static_cast<double>(g_get_monotonic_time()) * 1e-6;
}

std::int64_t in_frames(const Amount& amount, const Rate& rate) {
  if (amount.unit == Amount::Unit::Frames) return amount.value;
  return std::llround(static_cast<double>(amount.value) * 1e-9 * rate.numerator / rate.denominator);
}

bool needs_rate(const Amount& amount) {
  return amount.unit == Amount::Unit::Nanoseconds && amount.value > 0;
}

}  // namespace

std::optional<std::int64_t> frames_expected(const SourceLength& length, const RangeRequest& range,
                                            std::int64_t written) {
  const bool has_rate = length.rate.numerator > 0;
  std::optional<std::int64_t> frames = length.frames;
  if (!frames && has_rate && length.duration) {
    frames = in_frames({Amount::Unit::Nanoseconds, *length.duration}, length.rate);
  }
  if (!has_rate && (needs_rate(range.start) || (range.length && needs_rate(*range.length))))
    return std::nullopt;
  if (frames) *frames -= in_frames(range.start, length.rate);
  if (range.length) {
    const std::int64_t most = in_frames(*range.length, length.rate);
    frames = std::min(frames.value_or(most), most);
  }
  if (frames) frames = std::max<std::int64_t>(*frames - written, 0);
  return frames;
}

SourceLength length_of(GstPad* pad) {
  SourceLength length;
  gint64 duration = 0;
  if (gst_pad_query_duration(pad, GST_FORMAT_TIME, &duration) && duration > 0)
    length.duration = duration;
  const Handle<GstCaps> caps(gst_pad_get_current_caps(pad));
  if (caps) {
    gst_structure_get_fraction(gst_caps_get_structure(caps.get(), 0), "framerate",
                               &length.rate.numerator, &length.rate.denominator);
  }
  return length;
}

Tracker::Tracker() : began_(now()) {
  speed_.start(began_);
}

void Tracker::loading(int percent) {
  const std::lock_guard lock(mutex_);
  if (progress_.stage == Progress::Stage::Stopping) return;
  progress_.stage = Progress::Stage::Loading;
  progress_.percent = percent;
}

void Tracker::loaded() {
  const std::lock_guard lock(mutex_);
  if (progress_.stage == Progress::Stage::Stopping) return;
  progress_.stage = Progress::Stage::Running;
  if (progress_.done == 0) speed_.start(now());
}

void Tracker::network(const std::string& name, int percent) {
  const std::lock_guard lock(mutex_);
  progress_.network = name;
  progress_.network_percent = percent;
}

void Tracker::stopping() {
  const std::lock_guard lock(mutex_);
  progress_.stage = Progress::Stage::Stopping;
}

void Tracker::expect(std::optional<std::int64_t> frames) {
  const std::lock_guard lock(mutex_);
  progress_.total = frames;
}

void Tracker::frame_written() {
  const std::lock_guard lock(mutex_);
  ++progress_.done;
  speed_.frame(now());
}

double Tracker::seconds() const {
  return now() - began_;
}

Progress Tracker::progress(std::int64_t read) const {
  const std::lock_guard lock(mutex_);
  Progress progress = progress_;
  progress.read = read;
  progress.rate = speed_.rate();
  // A container's number of frames is an estimate.
  if (progress.total) progress.total = std::max(*progress.total, progress.done);
  if (progress.total) progress.left = speed_.left(*progress.total, now());
  return progress;
}

}  // namespace normalcrafter::convert
