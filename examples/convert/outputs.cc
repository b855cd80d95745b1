#include "outputs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "gst_handles.h"
#include "output_file.h"
#include "pipeline_parts.h"
#include "relit_video.h"
#include "video_codec.h"

namespace normalcrafter::convert {
namespace {

/// Calls `body`; keeps its Failure unless there is one already.
template <typename Body>
bool attempt(std::optional<Failure>& failed, Body&& body) {
  try {
    body();
    return true;
  } catch (const Failure& failure) {
    if (!failed) failed = failure;
    return false;
  }
}

void remove_partial(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(partial_name(path), ignored);
}

}  // namespace

Outputs::Outputs(const Options& options, const OutputPlan& plan, GstBin* pipeline,
                 GstElement* element, std::function<void()> counted)
    : options_(options), plan_(plan), pipeline_(pipeline), writer_(make_writer(options, plan)) {
  try {
    build(element, std::move(counted));
  } catch (...) {
    discard();
    throw;
  }
}

void Outputs::build(GstElement* element, std::function<void()> counted) {
  if (!options_.preview.empty()) make_preview();
  link_elements(element);
  std::vector<FrameSink*> sinks;
  for (FrameSink* sink : {writer_.get(), preview_.get()})
    if (sink != nullptr) sinks.push_back(sink);
  const Handle<GstPad> out(gst_element_get_static_pad(filter_, "src"));
  const bool one_size = !is_sequence(options_.kind) || (preview_ && sheet_ == nullptr);
  tap_ = std::make_unique<FrameTap>(
      out.get(),
      FrameTap::Request{plan_.samples, plan_.written, one_size, sinks, std::move(counted)});
  if (sheet_ == nullptr) return;
  const Handle<GstPad> in(gst_element_get_static_pad(element, "sink"));
  input_tap_ = std::make_unique<InputTap>(in.get(), plan_.written.discard, *sheet_);
}

void Outputs::make_preview() {
  std::string axes = "model";
  for (const auto& [name, value] : options_.element)
    if (name == "axes") axes = value;
  const Light light = parse_light(options_.light, axes);
  if (convert::is_video(output_kind(options_.preview))) {
    preview_ = std::make_unique<RelitVideo>(options_.preview, light);
  } else {
    auto sheet = std::make_unique<ContactSheet>(options_.preview, light);
    sheet_ = sheet.get();
    preview_ = std::move(sheet);
  }
}

void Outputs::link_elements(GstElement* element) {
  filter_ = make_element("capsfilter");
  const Handle<GstCaps> caps(gst_caps_from_string(caps_text(plan_.samples)));
  g_object_set(filter_, "caps", caps.get(), nullptr);
  gst_bin_add(pipeline_, filter_);
  link(element, filter_);
  if (writer_) {
    GstElement* end = make_element("fakesink");
    g_object_set(end, "async", FALSE, nullptr);  // see VideoWriter
    gst_bin_add(pipeline_, end);
    link(filter_, end);
  } else {
    video_ = std::make_unique<VideoWriter>(
        video_codec(options_.kind, options_.quality, options_.lossless),
        partial_name(options_.output).string(), pipeline_);
    video_->link_from(filter_);
  }
}

/// Where the output takes no audio it is read all the same: it may be what lasts as long as the
/// container says. A piece of a clip is joined with others, and sound does not end at frames.
void Outputs::add_audio(GstPad* pad, const VideoGate& gate) {
  const Handle<GstCaps> caps(gst_pad_get_current_caps(pad));
  // Encoded, it is small: as much as comes waits here for the frames that the network has not done.
  GstElement* queue = make_element("queue");
  g_object_set(queue, "max-size-time", G_GUINT64_CONSTANT(0), "max-size-bytes", 0,
               "max-size-buffers", 0, nullptr);
  gst_bin_add(pipeline_, queue);
  const Handle<GstPad> out(gst_element_get_static_pad(queue, "src"));
  audio_.push_back(std::make_unique<AudioGate>(out.get(), gate));
  if (video_ && !options_.trim) {
    video_->add_audio(queue, caps.get());
  } else {
    GstElement* end = make_element("fakesink");
    g_object_set(end, "async", FALSE, nullptr);
    gst_bin_add(pipeline_, end);
    link(queue, end);
    gst_element_sync_state_with_parent(end);
  }
  gst_element_sync_state_with_parent(queue);
  const Handle<GstPad> in(gst_element_get_static_pad(queue, "sink"));
  gst_pad_link(pad, in.get());
}

void Outputs::begin(std::int64_t running_time, VideoGate& gate) {
  if (video_) gate.set_beginning(running_time);
  for (const auto& audio : audio_) {
    if (video_) audio->set_beginning(running_time);
    audio->open();
  }
}

std::optional<Failure> Outputs::failure() const {
  const auto failure = tap_->failure();
  return failure || !input_tap_ ? failure : input_tap_->failure();
}

std::int64_t Outputs::audio_position() const {
  std::int64_t position = 0;
  for (const auto& audio : audio_) position = std::max(position, audio->position());
  return position;
}

void Outputs::end_streams() const {
  if (video_) video_->end_streams();
}

void Outputs::discard() {
  input_tap_.reset();
  tap_.reset();
  if (preview_) {
    preview_.reset();
    remove_partial(options_.preview);
  }
  if (writer_ && !is_sequence(options_.kind)) {
    writer_.reset();
    remove_partial(options_.output);
  }
}

std::string Outputs::finish(bool whole, std::optional<Failure>& failed) {
  const bool any = frames() > 0;
  if (preview_) {
    const bool ok = attempt(failed, [this] { preview_->finish(); });
    if (any && ok) attempt(failed, [this] { rename_whole(options_.preview); });
    if (!any) remove_partial(options_.preview);
  }
  if (writer_) attempt(failed, [this] { writer_->finish(); });
  const bool is_refused = !plan_.pattern && failed && failed->status() == Status::Usage;
  if (plan_.pattern || is_sequence(options_.kind)) return any && !is_refused ? options_.output : "";
  if (!any) {
    remove_partial(options_.output);
    return "";
  }
  if (whole && !failed && attempt(failed, [this] { rename_whole(options_.output); }))
    return options_.output;
  return partial_name(options_.output).string();
}

}  // namespace normalcrafter::convert
