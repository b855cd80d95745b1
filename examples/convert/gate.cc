#include "gate.h"

#include <algorithm>

namespace normalcrafter::convert {
namespace {

const GstSegment* segment_of(GstEvent* event) {
  const GstSegment* segment = nullptr;
  gst_event_parse_segment(event, &segment);
  return segment->format == GST_FORMAT_TIME ? segment : nullptr;
}

/// Calls `convert` with the pad's segment and the buffer's timestamp.
template <typename Convert>
std::optional<std::int64_t> converted(GstPad* pad, GstBuffer* buffer, Convert&& convert) {
  GstEvent* event = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
  if (event == nullptr) return std::nullopt;
  std::optional<std::int64_t> result;
  const GstSegment* segment = segment_of(event);
  if (segment != nullptr && GST_BUFFER_PTS_IS_VALID(buffer)) {
    const guint64 time = convert(segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
    if (GST_CLOCK_TIME_IS_VALID(time)) result = static_cast<std::int64_t>(time);
  }
  gst_event_unref(event);
  return result;
}

GstPadProbeReturn block(GstPad*, GstPadProbeInfo*, gpointer) {
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn drop(GstPad*, GstPadProbeInfo*, gpointer) {
  return GST_PAD_PROBE_DROP;
}

}  // namespace

std::optional<std::int64_t> stream_time(GstPad* pad, GstBuffer* buffer) {
  return converted(pad, buffer, gst_segment_to_stream_time);
}

std::int64_t duration_of(GstBuffer* buffer) {
  return GST_BUFFER_DURATION_IS_VALID(buffer)
             ? static_cast<std::int64_t>(GST_BUFFER_DURATION(buffer))
             : 0;
}

Gate::Gate(GstPad* pad)
    : pad_(GST_PAD(gst_object_ref(pad))),
      block_(gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BLOCK_DOWNSTREAM, block, nullptr, nullptr)),
      probes_{
          gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_FLUSH, drop, nullptr, nullptr),
          gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, on_buffer, this, nullptr),
          gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_event, this, nullptr)} {}

Gate::~Gate() {
  open();
  for (const gulong probe : probes_) gst_pad_remove_probe(pad_, probe);
  gst_object_unref(pad_);
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  if (block_ != 0) gst_pad_remove_probe(pad_, block_);
  block_ = 0;
}

void Gate::set_beginning(std::int64_t running_time) {
  gst_pad_set_offset(pad_, -running_time);
}

GstPadProbeReturn Gate::on_buffer(GstPad*, GstPadProbeInfo* info, gpointer self) {
  auto* gate = static_cast<Gate*>(self);
  if (gate->ended_) {
    // So that the source stops too.
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_EOS;
    return GST_PAD_PROBE_HANDLED;
  }
  switch (gate->judge(GST_PAD_PROBE_INFO_BUFFER(info))) {
    case FrameRange::Verdict::Pass:
      return GST_PAD_PROBE_OK;
    case FrameRange::Verdict::Skip:
      break;
    case FrameRange::Verdict::End:
      gate->end();
      break;
  }
  return GST_PAD_PROBE_DROP;
}

/// Not by an event on our own pad: it would refuse the tags that a source may still send, and a
/// decoder takes that for a fault.
void Gate::end() {
  on_end();
  ended_ = true;
  GstPad* next = gst_pad_get_peer(pad_);
  gst_pad_send_event(next, gst_event_new_eos());
  gst_object_unref(next);
}

GstPadProbeReturn Gate::on_event(GstPad*, GstPadProbeInfo* info, gpointer self) {
  auto* gate = static_cast<Gate*>(self);
  if (gate->ended_) return GST_PAD_PROBE_DROP;
  if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_EOS) {
    gate->on_end();
    gate->ended_ = true;
  }
  return GST_PAD_PROBE_OK;
}

VideoGate::VideoGate(GstPad* pad, const RangeRequest& range, OnBeginning on_beginning)
    : Gate(pad), range_(range), on_beginning_(std::move(on_beginning)) {}

VideoGate::~VideoGate() = default;

/// On another thread: what lies behind may be busy.
void VideoGate::end_now() {
  stopped_ = true;
  cut_ = true;
  const auto push = [](GstElement*, gpointer pad) {
    gst_pad_push_event(GST_PAD(pad), gst_event_new_eos());
  };
  gst_element_call_async(GST_ELEMENT(GST_OBJECT_PARENT(pad())), push, gst_object_ref(pad()),
                         gst_object_unref);
}

Stretch VideoGate::stretch() const {
  const std::lock_guard lock(mutex_);
  Stretch stretch = stretch_;
  if (cut_) stretch.end = end_;
  return stretch;
}

std::int64_t VideoGate::source_position() const {
  const std::lock_guard lock(mutex_);
  return position_;
}

void VideoGate::count(std::optional<std::int64_t> time, GstBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  if (time && passed_ == 0) stretch_.begin = *time;
  if (time) end_ = *time + duration_of(buffer);
}

FrameRange::Verdict VideoGate::judge(GstBuffer* buffer) {
  const std::optional<std::int64_t> time = stream_time(pad(), buffer);
  if (time) {
    const std::lock_guard lock(mutex_);
    position_ = std::max(position_, *time + duration_of(buffer));
  }
  const FrameRange::Verdict verdict = stopped_ ? FrameRange::Verdict::End : range_.judge(time);
  if (verdict == FrameRange::Verdict::End) cut_ = true;
  if (verdict != FrameRange::Verdict::Pass) return verdict;
  count(time, buffer);
  if (passed_++ == 0)
    on_beginning_(converted(pad(), buffer, gst_segment_to_running_time).value_or(0));
  return verdict;
}

void VideoGate::on_end() {
  if (passed_ > 0) return;
  cut_ = true;
  on_beginning_(0);
}

FrameRange::Verdict AudioGate::judge(GstBuffer* buffer) {
  const std::optional<std::int64_t> time = stream_time(pad(), buffer);
  const Stretch video = video_.stretch();
  if (!time) return FrameRange::Verdict::Pass;
  position_ = std::max<std::int64_t>(position_, *time + duration_of(buffer));
  if (video.end && *time >= *video.end) return FrameRange::Verdict::End;
  return *time + duration_of(buffer) <= video.begin && video.begin > 0 ? FrameRange::Verdict::Skip
                                                                       : FrameRange::Verdict::Pass;
}

}  // namespace normalcrafter::convert
