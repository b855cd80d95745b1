#include "source.h"

#include <gst/video/video.h>
#include <unistd.h>

#include <filesystem>

#include "element_options.h"
#include "gate.h"
#include "gst_handles.h"
#include "pipeline_parts.h"

namespace normalcrafter::convert {
namespace {

namespace fs = std::filesystem;

bool starts_with(GstCaps* caps, const char* media) {
  return g_str_has_prefix(gst_structure_get_name(gst_caps_get_structure(caps, 0)), media) != FALSE;
}

/// Whether caps of audio say all that a muxer may ask for: demuxers of transport streams do not.
bool is_described(GstCaps* caps) {
  const GstStructure* audio = gst_caps_get_structure(caps, 0);
  const auto says = [audio](const char* field) {
    gint value = 0;
    return gst_structure_get_int(audio, field, &value) != FALSE;
  };
  gint version = 0;
  const bool is_mpeg1 = gst_structure_has_name(audio, "audio/mpeg") &&
                        gst_structure_get_int(audio, "mpegversion", &version) && version == 1;
  return says("rate") && says("channels") && (!is_mpeg1 || says("layer"));
}

bool element_takes(const char* factory, GstCaps* caps) {
  GstElement* element = make_element(factory);
  const Handle<GstPad> sink(gst_element_get_static_pad(element, "sink"));
  const Handle<GstCaps> taken(gst_pad_get_pad_template_caps(sink.get()));
  gst_object_unref(gst_object_ref_sink(element));
  return gst_caps_can_intersect(taken.get(), caps) != FALSE;
}

/// What finds cuts for an element that begins anew at them.
std::string cuts_line(GstElement* target, GstCaps* caps) {
  if (!flag_property(target, "restart-on-key-unit")) return "";
  if (!element_takes("scenechange", caps)) {
    const char* format = gst_structure_get_string(gst_caps_get_structure(caps, 0), "format");
    throw Failure(
        Status::Usage,
        std::string("--restart-on-key-unit: GStreamer's scenechange finds cuts in video of "
                    "8 bits in YCbCr alone, this is ") +
            (format != nullptr ? format : "none"));
  }
  return "scenechange ! ";
}

/// videoflip for deep video, in a format that it takes and that holds all bits: videoconvert's own
/// choice may have 8 (for P010_10LE it has).
std::string deep_turning_line(GstCaps* caps, const GstVideoFormatInfo* info) {
  const std::string flip = "videoflip video-direction=auto ! ";
  if (element_takes("videoflip", caps)) return flip;
  if (!GST_VIDEO_FORMAT_INFO_IS_YUV(info) || GST_VIDEO_FORMAT_INFO_DEPTH(info, 0) > 12) return "";
  const bool half_width = GST_VIDEO_FORMAT_INFO_W_SUB(info, 1) == 1;
  const bool half_height = GST_VIDEO_FORMAT_INFO_H_SUB(info, 1) == 1;
  const char* colours = !half_width ? "Y444" : half_height ? "I420" : "I422";
  const char* bits = GST_VIDEO_FORMAT_INFO_DEPTH(info, 0) > 10 ? "12" : "10";
  return std::string("videoconvert ! capsfilter caps=video/x-raw,format=") + colours + "_" + bits +
         "LE ! " + flip;
}

}  // namespace

std::string frames_line(GstCaps* caps) {
  const char* name = gst_structure_get_string(gst_caps_get_structure(caps, 0), "format");
  const GstVideoFormat format =
      name != nullptr ? gst_video_format_from_string(name) : GST_VIDEO_FORMAT_UNKNOWN;
  const GstVideoFormatInfo* info = gst_video_format_get_info(format);
  const bool is_deep = GST_VIDEO_FORMAT_INFO_DEPTH(info, 0) > 8;
  const char* rgb = is_deep ? "RGBA64_LE" : GST_VIDEO_FORMAT_INFO_HAS_ALPHA(info) ? "RGBA" : "RGB";
  const std::string turn =
      is_deep ? deep_turning_line(caps, info) : "videoflip video-direction=auto ! ";
  return "videoconvert ! deinterlace fields=top ! " + turn +
         "videoconvert ! capsfilter caps=video/x-raw,format=" + rgb;
}

namespace {

InputPlan pictures_plan(PictureList list, const Options& options) {
  if (options.fps_numerator == 0)
    throw Failure(Status::Usage, options.input + ": pictures have no frame rate; give --fps");
  return {std::move(list), {options.fps_numerator, options.fps_denominator}, ""};
}

}  // namespace

InputPlan plan_input(const Options& options) {
  const std::string& input = options.input;
  const fs::path path(input);
  std::error_code error;
  if (fs::is_directory(path, error)) return pictures_plan(list_pictures(path), options);
  if (!fs::exists(path, error)) {
    if (input.find("://") != std::string::npos && gst_uri_is_valid(input.c_str()))
      return {std::nullopt, {}, input};
    if (const auto pattern = Pattern::parse(input))
      return pictures_plan(list_pictures(*pattern), options);
    throw Failure(Status::InputMissing, input + ": no such file");
  }
  if (access(input.c_str(), R_OK) != 0)
    throw Failure(Status::InputMissing, input + ": may not be read");
  const Handle<char> uri(gst_filename_to_uri(input.c_str(), nullptr));
  return {std::nullopt, {}, uri.get()};
}

Source::Source(const InputPlan& plan, const RangeRequest& range, GstBin* pipeline,
               GstElement* target, Callbacks callbacks)
    : pipeline_(pipeline),
      target_(target),
      callbacks_(std::move(callbacks)),
      gate_(make_element("identity")),
      gate_pad_(gst_element_get_static_pad(gate_, "src")) {
  gst_bin_add(pipeline, gate_);
  if (plan.pictures) {
    add_pictures(plan, range);
  } else {
    add_decoder(plan);
  }
}

Source::~Source() {
  gst_object_unref(gate_pad_);
}

void Source::add_decoder(const InputPlan& plan) {
  GstElement* decoder = make_element("uridecodebin");
  g_object_set(decoder, "uri", plan.uri.c_str(), nullptr);
  g_signal_connect(decoder, "autoplug-continue", G_CALLBACK(on_continue), this);
  watch(decoder);
}

void Source::add_pictures(const InputPlan& plan, const RangeRequest& range) {
  GstElement* files = make_element("appsrc");
  feeder_ = std::make_unique<PictureFeeder>(GST_APP_SRC(files),
                                            cut(plan.pictures->files, range, plan.rate), plan.rate);
  GstElement* decoder = make_element("decodebin");
  gst_bin_add(pipeline_, files);
  watch(decoder);
  link(files, decoder);
}

void Source::watch(GstElement* decoder) {
  g_signal_connect(decoder, "pad-added", G_CALLBACK(on_pad), this);
  g_signal_connect(decoder, "no-more-pads", G_CALLBACK(on_no_more_pads), this);
  gst_bin_add(pipeline_, decoder);
}

std::optional<Failure> Source::failure() const {
  const auto failure = failure_.get();
  return failure || !feeder_ ? failure : feeder_->failure();
}

/// Audio stays encoded, so that it can be copied; a parser may still have to find out what muxers
/// ask for. Of subtitles nothing is used.
gboolean Source::on_continue(GstElement*, GstPad*, GstCaps* caps, gpointer) {
  if (starts_with(caps, "audio/")) return is_described(caps) ? FALSE : TRUE;
  for (const char* media : {"text/", "subpicture/", "application/x-subtitle", "closedcaption/"})
    if (starts_with(caps, media)) return FALSE;
  return TRUE;
}

void Source::on_pad(GstElement*, GstPad* pad, gpointer data) {
  auto* self = static_cast<Source*>(data);
  try {
    self->take(pad);
  } catch (const std::exception& error) {
    self->failure_.keep(error);
    GST_ELEMENT_ERROR(self->gate_, LIBRARY, FAILED, ("%s", error.what()), (nullptr));
  }
}

void Source::take(GstPad* pad) {
  Handle<GstCaps> caps(gst_pad_get_current_caps(pad));
  if (!caps) caps.reset(gst_pad_query_caps(pad, nullptr));
  if (gst_caps_is_empty(caps.get()) || gst_caps_is_any(caps.get())) return;
  if (starts_with(caps.get(), "audio/")) {
    callbacks_.audio(pad);
  } else if (starts_with(caps.get(), "video/x-raw") && !has_video_) {
    has_video_ = link_video(pad, caps.get());
  } else {
    leave_unused(pad);
  }
}

/// Read all the same: it may be what lasts as long as the container says. But the pipeline does not
/// wait for its end, which comes late where a range ends early.
void Source::leave_unused(GstPad* pad) {
  GstElement* end = make_element("fakesink");
  g_object_set(end, "async", FALSE, "sync", FALSE, nullptr);
  GST_OBJECT_FLAG_UNSET(end, GST_ELEMENT_FLAG_SINK);
  gst_bin_add(pipeline_, end);
  gst_element_sync_state_with_parent(end);
  const Handle<GstPad> sink(gst_element_get_static_pad(end, "sink"));
  gst_pad_add_probe(sink.get(), GST_PAD_PROBE_TYPE_BUFFER, on_unused, this, nullptr);
  gst_pad_link(pad, sink.get());
}

GstPadProbeReturn Source::on_unused(GstPad* pad, GstPadProbeInfo* info, gpointer self) {
  GstBuffer* buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  const auto time = stream_time(pad, buffer);
  if (!time) return GST_PAD_PROBE_OK;
  const std::int64_t end = *time + duration_of(buffer);
  std::atomic<std::int64_t>& last = static_cast<Source*>(self)->unused_position_;
  for (std::int64_t known = last; known < end && !last.compare_exchange_weak(known, end);) {
  }
  return GST_PAD_PROBE_OK;
}

/// The format that the element gets depends on the source alone, so that all outputs have the
/// same vectors.
bool Source::link_video(GstPad* pad, GstCaps* caps) {
  GstElement* turn = parse_bin(cuts_line(target_, caps) + frames_line(caps));
  gst_bin_add(pipeline_, turn);
  link(gate_, turn);
  link(turn, target_);
  gst_element_sync_state_with_parent(turn);
  const Handle<GstPad> sink(gst_element_get_static_pad(gate_, "sink"));
  return gst_pad_link(pad, sink.get()) == GST_PAD_LINK_OK;
}

void Source::on_no_more_pads(GstElement*, gpointer self) {
  static_cast<Source*>(self)->callbacks_.known();
}

}  // namespace normalcrafter::convert
