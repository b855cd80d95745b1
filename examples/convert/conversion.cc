#include "conversion.h"

#include <algorithm>
#include <cstdio>

#include "element_options.h"
#include "interrupts.h"

namespace normalcrafter::convert {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
// The end that a container states and that of its last frame differ by less.
constexpr std::int64_t kEndTolerance = 500 * kMillisecond;
// For an encoder to complete its file after the network has failed.
constexpr guint kEndSeconds = 60;

std::string seconds_text(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

RangeRequest range_of(const Options& options, const ResumePlan& resume) {
  return {options.start, options.frames, resume.skip};
}

}  // namespace

Windows windows_of(GstElement* element) {
  return {integer_property(element, "window-size"), integer_property(element, "step-size"),
          integer_property(element, "vae-decode-chunk-size")};
}

Conversion::Conversion(const Options& options, GstElement* element, Reporter& reporter)
    : options_(options),
      reporter_(reporter),
      element_(element),
      input_(plan_input(options)),
      output_(plan_output(options, input_, windows_of(element), settings_that_count(element))),
      range_(range_of(options, output_.resume)),
      loop_(g_main_loop_new(nullptr, FALSE)),
      pipeline_(std::make_unique<RunningPipeline>()) {
  build();
}

/// The streams' threads stop before what they call goes.
Conversion::~Conversion() {
  pipeline_->stop();
}

void Conversion::build() {
  if (options_.resume && flag_property(element_, "restart-on-key-unit"))
    throw Failure(Status::Usage,
                  "--resume and --restart-on-key-unit exclude each other: where windows begin "
                  "depends on the cuts before");
  GstBin* bin = pipeline_->bin();
  gst_bin_add(bin, element_);
  outputs_ = std::make_unique<Outputs>(options_, output_, bin, element_,
                                       [this] { tracker_.frame_written(); });
  try {
    build_source();
  } catch (...) {
    outputs_->discard();
    throw;
  }
}

void Conversion::build_source() {
  GstBin* bin = pipeline_->bin();
  source_ = std::make_unique<Source>(
      input_, range_, bin, element_,
      Source::Callbacks{[this](GstPad* pad) { outputs_->add_audio(pad, *gate_); },
                        [this] { on_main_loop<&Conversion::streams_known>(); }});
  // Pictures were chosen by the source already.
  gate_ = std::make_unique<VideoGate>(source_->gate_pad(),
                                      source_->is_pictures() ? RangeRequest{} : range_,
                                      [this](std::int64_t time) { begin(time); });
}

/// The first frame is about to go into the network; on its stream's thread.
void Conversion::begin(std::int64_t running_time) {
  outputs_->begin(running_time, *gate_);
  length_ = length_of(source_->gate_pad());
  if (input_.pictures) length_.frames = static_cast<std::int64_t>(input_.pictures->files.size());
  auto expected = frames_expected(length_, range_, output_.resume.skip + output_.written.discard);
  if (expected && output_.written.most) expected = std::min(*expected, *output_.written.most);
  tracker_.expect(expected);
  if (!loading_) tracker_.loaded();
  // Not before: a run that fails to begin leaves everything as it was.
  if (gate_->passed() > 0) remove_old_files();
}

void Conversion::remove_old_files() {
  try {
    remove_replaced(output_);
  } catch (const std::exception& error) {
    removal_failure_.keep(error);
    on_main_loop<&Conversion::removal_failed>();
  }
}

void Conversion::removal_failed() {
  fail(*removal_failure_.get(), Role::Output);
}

void Conversion::streams_known() {
  if (!source_->has_video()) {
    fail({Status::NotVideo,
          options_.input + (missing_plugin_.empty()
                                ? ": has no video stream"
                                : ": GStreamer lacks a plugin: " + missing_plugin_)},
         Role::Input);
    return;
  }
  seek();
  gate_->open();
}

/// Where the source cannot seek, the frames before the start are decoded and left out.
void Conversion::seek() {
  const Amount& start = options_.start;
  if (source_->is_pictures() || start.unit != Amount::Unit::Nanoseconds || start.value == 0) return;
  const Handle<GstPad> in(
      gst_element_get_static_pad(GST_ELEMENT(GST_OBJECT_PARENT(source_->gate_pad())), "sink"));
  gst_pad_push_event(
      in.get(),
      gst_event_new_seek(1, GST_FORMAT_TIME,
                         static_cast<GstSeekFlags>(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE),
                         GST_SEEK_TYPE_SET, start.value, GST_SEEK_TYPE_NONE, 0));
}

void Conversion::quit() {
  g_main_loop_quit(loop_.get());
}

void Conversion::interrupt() {
  tracker_.stopping();
  if (gate_->passed() == 0 || failure_) {
    quit();
    return;
  }
  reporter_.say("stopping after the frames that were read; once more Ctrl-C stops at once");
  gate_->stop();
}

void Conversion::fail(const Failure& failure, Role role) {
  if (failure_) return;
  failure_ = failure;
  tracker_.stopping();
  if (role == Role::Input && gate_->passed() > 0) {
    reporter_.warn(std::string(failure.what()) + "; finishing the frames before it");
    gate_->end_now();
  } else if (role != Role::Output && outputs_->is_video() && outputs_->frames() > 0) {
    outputs_->end_streams();
    g_timeout_add_seconds(
        kEndSeconds,
        [](gpointer self) -> gboolean {
          static_cast<Conversion*>(self)->quit();
          return G_SOURCE_REMOVE;
        },
        this);
  } else {
    quit();
  }
}

void Conversion::check_input_was_whole() {
  if (failure_ || gate_->has_cut() || source_->is_pictures() || !length_.duration) return;
  const std::int64_t end =
      std::max({gate_->source_position(), outputs_->audio_position(), source_->unused_position()});
  if (*length_.duration - end <= kEndTolerance) return;
  failure_ = Failure(Status::InputDamaged, options_.input + ": breaks off after " +
                                               seconds_text(end) + ", though it is said to last " +
                                               seconds_text(*length_.duration));
}

std::string Conversion::farewell() const {
  const bool sequence = is_sequence(options_.kind);
  return "\nstopped at once; what is written so far is in " +
         (sequence ? options_.output : partial_name(options_.output).string()) + "\n";
}

Outcome Conversion::run() {
  const Interrupts interrupts([this] { interrupt(); }, farewell());
  const Handle<GstBus> bus(gst_element_get_bus(pipeline_->get()));
  gst_bus_add_watch(bus.get(), on_message, this);
  const guint ticks = g_timeout_add(
      reporter_.interval(),
      [](gpointer data) -> gboolean {
        auto* self = static_cast<Conversion*>(data);
        self->reporter_.progress(self->tracker_.progress(self->gate_->passed()));
        return G_SOURCE_CONTINUE;
      },
      this);
  // decodebin takes the end of no pictures for a fault.
  if (!source_->is_empty()) {
    gst_element_set_state(pipeline_->get(), GST_STATE_PLAYING);
    g_main_loop_run(loop_.get());
  }
  g_source_remove(ticks);
  gst_bus_remove_watch(bus.get());
  pipeline_->stop();
  return outcome();
}

/// As far as it was read; of pictures, which are chosen beforehand, in all.
std::int64_t Conversion::input_end() const {
  if (!input_.pictures) return gate_->source_position();
  return input_.rate.time(static_cast<std::int64_t>(input_.pictures->files.size()));
}

Outcome Conversion::outcome() {
  const int signal = Interrupts::received();
  if (signal == 0) check_input_was_whole();
  Outcome outcome;
  const bool whole = !failure_;
  outcome.output = outputs_->finish(whole, failure_);
  outcome.frames = outputs_->frames();
  outcome.beginning = outputs_->beginning();
  outcome.seconds = tracker_.seconds();
  const bool nothing_left = output_.resume.discard > 0;
  if (!failure_ && signal == 0 && outcome.frames == 0 && !nothing_left)
    failure_ =
        Failure(Status::Usage, options_.input + ": no frame lies in the range; the input ends at " +
                                   seconds_text(input_end()));
  if (failure_) {
    outcome.status = failure_->status();
    outcome.message = failure_->what();
  } else if (signal != 0) {
    outcome.status = static_cast<Status>(128 + signal);
    outcome.message = "interrupted";
  }
  if (whole && signal == 0) reporter_.progress(tracker_.progress(gate_->passed()));
  return outcome;
}

}  // namespace normalcrafter::convert
