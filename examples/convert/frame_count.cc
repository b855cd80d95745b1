#include "frame_count.h"

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "conversion.h"
#include "fault.h"
#include "gate.h"
#include "gst_handles.h"
#include "output_plan.h"
#include "pipeline_parts.h"
#include "source.h"

namespace normalcrafter::convert {
namespace {

using Time = std::optional<std::int64_t>;

struct Counted {
  std::vector<Time> times;
  std::vector<std::int64_t> breaks;  ///< frames at which the element begins anew
};

/// Ends a branch, and the wait for its end.
GstElement* add_end(GstBin* bin) {
  GstElement* end = make_element("fakesink");
  g_object_set(end, "async", FALSE, "sync", FALSE, nullptr);
  gst_bin_add(bin, end);
  return end;
}

/// Decodes a clip as a conversion does, as far as the gate.
class FrameCounter {
 public:
  /// `threshold`: the element's discont-threshold.
  FrameCounter(const Options& options, const InputPlan& input, std::uint64_t threshold)
      : options_(options),
        threshold_(threshold),
        bus_(gst_element_get_bus(pipeline_.get())),
        source_(input, {}, pipeline_.bin(), add_end(pipeline_.bin()),
                {[this](GstPad* pad) { end_audio(pad); }, [this] { streams_known(); }}),
        gate_(source_.gate_pad(), {options.start, options.frames}, [](std::int64_t) {}) {
    gst_pad_add_probe(source_.gate_pad(), GST_PAD_PROBE_TYPE_BUFFER, on_frame, this, nullptr);
  }
  ~FrameCounter() {
    pipeline_.stop();
    if (caps_ != nullptr) gst_caps_unref(caps_);
  }
  FrameCounter(const FrameCounter&) = delete;
  FrameCounter& operator=(const FrameCounter&) = delete;

  Counted run() {
    gst_element_set_state(pipeline_.get(), GST_STATE_PLAYING);
    const Handle<GstMessage> end(
        gst_bus_timed_pop_filtered(bus_.get(), GST_CLOCK_TIME_NONE,
                                   static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR |
                                                               GST_MESSAGE_APPLICATION)));
    pipeline_.stop();
    if (const auto failure = source_.failure()) throw Failure(*failure);
    if (GST_MESSAGE_TYPE(end.get()) == GST_MESSAGE_APPLICATION)
      throw Failure(Status::NotVideo, options_.input + ": has no video stream");
    if (GST_MESSAGE_TYPE(end.get()) == GST_MESSAGE_ERROR)
      throw failure_of(end.get(), Role::Input, options_.input, !counted_.times.empty());
    return std::move(counted_);
  }

 private:
  void end_audio(GstPad* pad) {
    GstElement* end = add_end(pipeline_.bin());
    gst_element_sync_state_with_parent(end);
    const Handle<GstPad> sink(gst_element_get_static_pad(end, "sink"));
    gst_pad_link(pad, sink.get());
  }

  void streams_known() {
    if (source_.has_video()) {
      gate_.open();
    } else {
      gst_bus_post(bus_.get(),
                   gst_message_new_application(nullptr, gst_structure_new_empty("no-video")));
    }
  }

  /// Behind the gate, before what would turn and convert the frame.
  static GstPadProbeReturn on_frame(GstPad* pad, GstPadProbeInfo* info, gpointer self) {
    static_cast<FrameCounter*>(self)->count(pad, GST_PAD_PROBE_INFO_BUFFER(info));
    return GST_PAD_PROBE_DROP;
  }

  /// A decoder's DISCONT is not asked for: it may have marked another frame when it began
  /// elsewhere.
  void count(GstPad* pad, GstBuffer* buffer) {
    const Time time = stream_time(pad, buffer);
    const bool jumps = time && last_ &&
                       (*time < *last_ || static_cast<std::uint64_t>(*time - *last_) > threshold_);
    Handle<GstCaps> caps(gst_pad_get_current_caps(pad));
    const bool changes = caps_ != nullptr && !gst_caps_is_equal(caps_, caps.get());
    if (jumps || changes)
      counted_.breaks.push_back(static_cast<std::int64_t>(counted_.times.size()));
    gst_caps_replace(&caps_, caps.get());
    counted_.times.push_back(time);
    if (time) last_ = time;
  }

  const Options& options_;
  const std::uint64_t threshold_;
  RunningPipeline pipeline_;
  Handle<GstBus> bus_;
  Source source_;
  VideoGate gate_;
  Counted counted_;
  Time last_;
  GstCaps* caps_ = nullptr;
};

/// Pictures are listed, not read.
Counted counted(const Options& options, const InputPlan& input, std::uint64_t threshold) {
  if (!input.pictures) return FrameCounter(options, input, threshold).run();
  const PictureRange chosen =
      cut(input.pictures->files, {options.start, options.frames}, input.rate);
  Counted counted;
  for (std::size_t i = 0; i < chosen.files.size(); ++i)
    counted.times.emplace_back(input.rate.time(chosen.first + static_cast<std::int64_t>(i)));
  return counted;
}

}  // namespace

void count_frames(const Options& options, GstElement* element) {
  const InputPlan input = plan_input(options);
  guint64 threshold = 0;
  g_object_get(element, "discont-threshold", &threshold, nullptr);
  const auto [times, breaks] = counted(options, input, threshold);
  if (times.empty()) throw Failure(Status::Usage, options.input + ": no frame lies in the range");
  auto seconds = nlohmann::ordered_json::array();
  for (const Time& time : times) {
    seconds.push_back(nullptr);
    if (time) seconds.back() = static_cast<double>(*time) * 1e-9;
  }
  const Windows windows = windows_of(element);
  const nlohmann::ordered_json object = {{"event", "count"},
                                         {"frames", times.size()},
                                         {"pictures", input.pictures.has_value()},
                                         {"breaks", breaks},
                                         {"first_number", first_number(options, input)},
                                         {"window-size", windows.window},
                                         {"step-size", windows.step},
                                         {"vae-decode-chunk-size", windows.decode_chunk},
                                         {"times", std::move(seconds)}};
  std::printf("%s\n", object.dump().c_str());
}

}  // namespace normalcrafter::convert
