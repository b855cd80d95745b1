#include "check_axes.h"

#include <gst/app/gstappsrc.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "element_options.h"
#include "fault.h"
#include "frame_tap.h"
#include "gst_handles.h"
#include "pipeline_parts.h"
#include "sphere.h"

namespace normalcrafter::convert {
namespace {

class JudgeSink final : public FrameSink {
 public:
  explicit JudgeSink(const Sphere& sphere) : judge_(sphere) {}
  void write(const NormalFrame& frame) override { judge_.add(frame); }
  std::array<AxisFinding, 3> findings() const { return judge_.findings(); }

 private:
  AxisJudge judge_;
};

GstElement* sphere_source(const Sphere& sphere, int frames) {
  GstElement* source = make_element("appsrc");
  const Handle<GstCaps> caps(gst_caps_new_simple(
      "video/x-raw", "format", G_TYPE_STRING, "RGB", "width", G_TYPE_INT, sphere.size, "height",
      G_TYPE_INT, sphere.size, "framerate", GST_TYPE_FRACTION, 25, 1, nullptr));
  g_object_set(source, "format", GST_FORMAT_TIME, "caps", caps.get(), "max-bytes",
               G_GUINT64_CONSTANT(0), nullptr);
  for (int i = 0; i < frames; ++i) {
    // A row's length is a multiple of four bytes, so GStreamer's RGB has no padding.
    const Picture picture = sphere.picture(static_cast<float>(i) / static_cast<float>(frames));
    GstBuffer* buffer = gst_buffer_new_memdup(picture.pixels.data(), picture.pixels.size());
    GST_BUFFER_PTS(buffer) = static_cast<GstClockTime>(i) * GST_SECOND / 25;
    GST_BUFFER_DURATION(buffer) = GST_SECOND / 25;
    gst_app_src_push_buffer(GST_APP_SRC(source), buffer);
  }
  gst_app_src_end_of_stream(GST_APP_SRC(source));
  return source;
}

void run_to_end(GstElement* pipeline) {
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  const Handle<GstBus> bus(gst_element_get_bus(pipeline));
  const Handle<GstMessage> end(
      gst_bus_timed_pop_filtered(bus.get(), GST_CLOCK_TIME_NONE,
                                 static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR)));
  if (GST_MESSAGE_TYPE(end.get()) == GST_MESSAGE_ERROR)
    throw failure_of(end.get(), Role::Element, "", true);
}

void print_json(const std::array<AxisFinding, 3>& findings,
                const std::optional<std::string>& found) {
  nlohmann::ordered_json object = {{"event", "axes"}, {"axes", nullptr}};
  if (found) object["axes"] = *found;
  static constexpr const char* kNames[3] = {"x", "y", "z"};
  for (std::size_t i = 0; i < 3; ++i) {
    object[kNames[i]] = {{"follows", kNames[findings[i].axis]},
                         {"correlation", findings[i].correlation}};
  }
  std::printf("%s\n", object.dump().c_str());
}

void print_text(const std::array<AxisFinding, 3>& findings,
                const std::optional<std::string>& found) {
  for (int i = 0; i < 3; ++i)
    std::printf("%s\n", describe(i, findings[static_cast<std::size_t>(i)]).c_str());
  if (found) {
    std::printf(
        "This is the convention of --axes=%s. To state it, write {\"axes\": \"%s\"} to\n"
        "normalcrafter.json in the model's folder.\n",
        found->c_str(), found->c_str());
  } else if (is_clear(findings)) {
    std::printf("None of the named conventions; --flip-x, --flip-y and --flip-z make one of it.\n");
  } else {
    std::printf("The vectors do not follow the sphere: is the model trained?\n");
  }
}

}  // namespace

Status check_axes(GstElement* element, ProgressMode mode) {
  const Sphere sphere;
  JudgeSink judge(sphere);
  RunningPipeline pipeline;
  GstElement* source = sphere_source(sphere, integer_property(element, "window-size"));
  GstElement* filter = make_element("capsfilter");
  GstElement* end = make_element("fakesink");
  const Handle<GstCaps> caps(gst_caps_from_string(caps_text(Samples::Float)));
  g_object_set(filter, "caps", caps.get(), nullptr);
  gst_bin_add_many(pipeline.bin(), source, element, filter, end, nullptr);
  link(source, element);
  link(element, filter);
  link(filter, end);
  const Handle<GstPad> out(gst_element_get_static_pad(filter, "src"));
  const FrameTap tap(out.get(), {Samples::Float, {}, true, {&judge}, [] {}});
  run_to_end(pipeline.get());
  pipeline.stop();
  if (const auto failure = tap.failure()) throw Failure(*failure);
  const auto findings = judge.findings();
  const auto found = convention(findings);
  if (mode == ProgressMode::Json) {
    print_json(findings, found);
  } else {
    print_text(findings, found);
  }
  return is_clear(findings) ? Status::Done : Status::Undetermined;
}

}  // namespace normalcrafter::convert
