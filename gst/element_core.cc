#include "element_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "debug.h"
#include "engine_loader.h"
#include "latency.h"
#include "mapped_frame.h"
#include "messages.h"
#include "metadata.h"
#include "refusals.h"
#include "tensor_caps.h"

namespace normalcrafter {
namespace {

constexpr GstClockTime kUnknownFrameDuration = GST_SECOND / 25;
constexpr int kPercentStep = 5;
constexpr gint64 kStageInterval = G_TIME_SPAN_SECOND / 5;

std::string find_demo_model() {
  const std::filesystem::path candidates[] = {
      beside_plugin(NORMALCRAFTER_DEMO_MODEL),
      // The source tree's, where the plugin is used from a build folder inside it.
      std::filesystem::path(plugin_directory()) / ".." / ".." / "models" / "demo",
  };
  for (const auto& candidate : candidates) {
    std::error_code ignored;
    if (std::filesystem::is_directory(candidate, ignored)) return candidate.string();
  }
  throw Error(ErrorCode::NotFound,
              "No model is set, and the bundled demo model is not installed. Set the property "
              "'model' or the environment variable NORMALCRAFTER_MODEL to a model's directory, "
              "for example one fetched with: huggingface-cli download Yanrui95/NormalCrafter "
              "--local-dir DIRECTORY");
}

/// The settings that may change between two clips of a run.
bool same_live_settings(const SessionOptions& a, const SessionOptions& b) {
  return a.renormalize == b.renormalize && a.flip_x == b.flip_x && a.flip_y == b.flip_y &&
         a.flip_z == b.flip_z;
}

void copy_live_settings(const SessionOptions& from, SessionOptions& to) {
  to.renormalize = from.renormalize;
  to.flip_x = from.flip_x;
  to.flip_y = from.flip_y;
  to.flip_z = from.flip_z;
}

GstClockTime frame_duration(const GstVideoInfo& info) {
  if (GST_VIDEO_INFO_FPS_N(&info) <= 0 || GST_VIDEO_INFO_FPS_D(&info) <= 0) {
    return kUnknownFrameDuration;
  }
  return gst_util_uint64_scale_int(GST_SECOND, GST_VIDEO_INFO_FPS_D(&info),
                                   GST_VIDEO_INFO_FPS_N(&info));
}

void add_device_stats(GstStructure* stats, const DeviceStats& device) {
  gst_structure_set(
      stats, "device-allocated-bytes", G_TYPE_UINT64, static_cast<guint64>(device.memory.allocated),
      "device-reserved-bytes", G_TYPE_UINT64, static_cast<guint64>(device.memory.reserved),
      "device-peak-bytes", G_TYPE_UINT64, static_cast<guint64>(device.memory.peak), nullptr);
  static constexpr struct {
    Stage stage;
    const char* bytes;
    const char* seconds;
  } kUploads[] = {{Stage::Clip, "clip-upload-bytes", "clip-upload-seconds"},
                  {Stage::Encode, "encode-upload-bytes", "encode-upload-seconds"},
                  {Stage::Unet, "unet-upload-bytes", "unet-upload-seconds"},
                  {Stage::Decode, "decode-upload-bytes", "decode-upload-seconds"}};
  for (const auto& upload : kUploads) {
    const int stage = static_cast<int>(upload.stage);
    gst_structure_set(stats, upload.bytes, G_TYPE_UINT64,
                      static_cast<guint64>(device.upload_bytes[stage]), upload.seconds,
                      G_TYPE_DOUBLE, device.upload_seconds[stage], nullptr);
  }
}

double network_seconds(const SessionStats& stats) {
  double seconds = 0;
  for (int stage = 0; stage < kStageCount; ++stage) {
    if (stage != static_cast<int>(Stage::Load)) seconds += stats.stage_seconds[stage];
  }
  return seconds;
}

bool write_tensor(const NormalView& picture, GstBuffer* buffer) {
  GstMapInfo map;
  if (!gst_buffer_map(buffer, &map, GST_MAP_WRITE)) return false;
  const std::size_t row_bytes = sizeof(float) * 3 * picture.size.width;
  const bool fits = map.size >= row_bytes * picture.size.height;
  for (int row = 0; fits && row < picture.size.height; ++row) {
    std::memcpy(map.data + row * row_bytes,
                static_cast<const std::byte*>(picture.data) + row * picture.row_stride, row_bytes);
  }
  gst_buffer_unmap(buffer, &map);
  return fits;
}

bool write_picture(const NormalView& picture, const PendingFrame& frame, GstBuffer* buffer) {
  if (frame.config->tensor) return write_tensor(picture, buffer);
  MappedFrame mapped(frame.config->out, buffer, GST_MAP_WRITE);
  if (!mapped) return false;
  pack(picture, *mapped);
  if (frame.alpha) pack_alpha(*frame.alpha, *mapped);
  return true;
}

/// Throws Error, or std::bad_alloc.
QueuedFrame copy_frame(GstBuffer* buffer, std::shared_ptr<const StreamConfig> config) {
  const MappedFrame mapped(config->in, buffer, GST_MAP_READ);
  if (!mapped) {
    throw Error(ErrorCode::NetworkFailed,
                "A buffer from upstream cannot be read as a frame of its caps.");
  }
  QueuedFrame frame{unpack(*mapped), {keep_metadata(buffer), config, std::nullopt}};
  if (config->alpha == Alpha::Copy && !config->tensor && GST_VIDEO_INFO_HAS_ALPHA(&config->out)) {
    frame.pending.alpha = unpack_alpha(*mapped);
  }
  return frame;
}

GstClockTime to_clock_time(double seconds) {
  return static_cast<GstClockTime>(seconds * GST_SECOND);
}

}  // namespace

ElementCore::ElementCore(GstBaseTransform* element, GstBaseTransformClass* parent)
    : base_(element), parent_(parent), buffers_(element->srcpad), worker_(*this) {
  gst_segment_init(&segment_, GST_FORMAT_UNDEFINED);
  worker_.set_limits(settings_.leaky, settings_.max_size_buffers);
}

// State changes

bool ElementCore::open() {
  {
    const std::lock_guard lock(mutex_);
    if (opened_) return true;  // pads were activated before the change of state
  }
  try {
    engine_ = &load_engine();
    open_model();
    SessionOptions options;
    {
      const std::lock_guard lock(mutex_);
      active_ = settings_;
      opened_ = true;
      options = active_.session_for(model_->info().axes);
    }
    axes_told_ = false;
    check_axes();
    session_options_ = std::make_shared<const SessionOptions>(options);
    worker_.open(session_options_);
    return true;
  } catch (const Error& error) {
    post_error(element(), error);
  } catch (const std::exception& error) {
    post_error(element(), Error(ErrorCode::NetworkFailed, error.what()));
  }
  stop();
  return false;
}

ModelOptions ElementCore::model_options() {
  ModelOptions options;
  {
    const std::lock_guard lock(mutex_);
    options = settings_.model;
  }
  if (!options.directory.empty()) return options;
  if (const char* chosen = g_getenv("NORMALCRAFTER_MODEL"); chosen != nullptr && *chosen != '\0') {
    options.directory = chosen;
    return options;
  }
  options.directory = find_demo_model();
  post_warning(element(),
               "No model is set, so the bundled demo model is used. It is small and of modest "
               "quality. The released weights: huggingface-cli download Yanrui95/NormalCrafter "
               "--local-dir DIRECTORY, then set the property 'model' to DIRECTORY.");
  return options;
}

/// Keeps the model from run to run while the same one is wanted.
void ElementCore::open_model() {
  const ModelOptions options = model_options();
  {
    const std::lock_guard lock(mutex_);
    if (model_ && options == model_options_) return;
  }
  release();
  std::shared_ptr<Model> model = engine_->open_model(options, log_to(element()));
  const ModelInfo& info = model->info();
  GST_INFO_OBJECT(element(), "model %s on %s (%s) in %s", info.directory.c_str(),
                  info.device.c_str(), info.device_name.c_str(), dtype_name(info.dtype));
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
  model_options_ = options;
}

bool ElementCore::start() {
  bool opened;
  {
    const std::lock_guard lock(mutex_);
    opened = opened_;
  }
  // Pads can be deactivated and activated again without a change of state.
  if (!opened && !open()) return false;
  forget_position();
  forget_told();
  try {
    worker_.start();
    return true;
  } catch (const std::system_error& error) {
    post_error(element(), Error(ErrorCode::OutOfMemory,
                                std::string("No thread could be started: ") + error.what() + "."));
    return false;
  }
}

void ElementCore::unblock() {
  worker_.unblock();
}

void ElementCore::stop() {
  worker_.unblock();
  worker_.join();
  buffers_.release();
  const std::lock_guard lock(mutex_);
  opened_ = false;
  config_.reset();
  told_latency_.reset();
  offered_.reset();
}

void ElementCore::release() {
  std::shared_ptr<Model> last;
  const std::lock_guard lock(mutex_);
  last.swap(model_);
}

// Properties

bool ElementCore::set_property(guint id, const GValue* value) {
  {
    const std::lock_guard lock(mutex_);
    const Leaky leaky = settings_.leaky;
    const guint limit = settings_.max_size_buffers;
    if (!set_setting(settings_, id, value)) return false;
    if (leaky == settings_.leaky && limit == settings_.max_size_buffers) return true;
    // Under the lock, so that of two threads the one that sets last is the last here too.
    worker_.set_limits(settings_.leaky, settings_.max_size_buffers);
  }
  tell_latency(0);
  return true;
}

bool ElementCore::get_property(guint id, GValue* value) const {
  const std::lock_guard lock(mutex_);
  return get_setting(settings_, id, value);
}

GstStructure* ElementCore::stats() const {
  const WorkerStats now = worker_.stats();
  const SessionStats& session = now.session;
  std::shared_ptr<const Model> model;
  {
    const std::lock_guard lock(mutex_);
    model = model_;
  }
  GstStructure* stats = gst_structure_new(
      "application/x-normalcrafter-stats", "frames-in", G_TYPE_UINT64,
      static_cast<guint64>(session.frames_in), "frames-out", G_TYPE_UINT64,
      static_cast<guint64>(session.frames_out), "frames-dropped", G_TYPE_UINT64,
      static_cast<guint64>(now.dropped), "frames-queued", G_TYPE_UINT, now.queued, "windows",
      G_TYPE_UINT64, static_cast<guint64>(session.windows), "latency", G_TYPE_UINT64,
      static_cast<guint64>(latency().min), "threads", G_TYPE_INT, session.threads,
      "peak-live-frames", G_TYPE_INT, session.peak.frames, "peak-live-embeddings", G_TYPE_INT,
      session.peak.embeddings, "peak-live-latents", G_TYPE_INT, session.peak.latents,
      "peak-live-normals", G_TYPE_INT, session.peak.normals, nullptr);
  static constexpr const char* kSeconds[kStageCount] = {
      "load-seconds", "clip-seconds", "encode-seconds", "unet-seconds", "decode-seconds"};
  for (int stage = 0; stage < kStageCount; ++stage) {
    gst_structure_set(stats, kSeconds[stage], G_TYPE_DOUBLE, session.stage_seconds[stage], nullptr);
  }
  if (model) {
    const ModelInfo& info = model->info();
    gst_structure_set(stats, "peak-bytes", G_TYPE_UINT64, model->peak_bytes(), "device",
                      G_TYPE_STRING, info.device.c_str(), "device-name", G_TYPE_STRING,
                      info.device_name.c_str(), "dtype", G_TYPE_STRING, dtype_name(info.dtype),
                      nullptr);
    if (info.device != "cpu") add_device_stats(stats, model->device_stats());
  }
  return stats;
}

// Negotiation

SizeRule ElementCore::size_rule() const {
  const std::lock_guard lock(mutex_);
  return (opened_ ? active_ : settings_).size_rule();
}

bool ElementCore::set_caps(GstCaps* in_caps, GstCaps* out_caps) {
  GstVideoInfo in;
  GstVideoInfo out;
  if (!gst_video_info_from_caps(&in, in_caps)) return false;
  const GstStructure* output = gst_caps_get_structure(out_caps, 0);
  const bool tensor = is_tensor(output);
  if (tensor) {
    const auto size = tensor_size(output);
    if (!size) return false;
    gst_video_info_set_format(&out, GST_VIDEO_FORMAT_RGB, size->width, size->height);
  } else if (!gst_video_info_from_caps(&out, out_caps)) {
    return false;
  }
  const Size expected = size_rule().output({GST_VIDEO_INFO_WIDTH(&in), GST_VIDEO_INFO_HEIGHT(&in)});
  if (expected != Size{GST_VIDEO_INFO_WIDTH(&out), GST_VIDEO_INFO_HEIGHT(&out)}) return false;
  // Frames of the old caps leave before the new caps do. A flush has thrown them away already.
  worker_.drain();
  // What is behind the element now need not take what the old clip's last frames were.
  worker_.clear_flow(GST_FLOW_NOT_NEGOTIATED);
  auto config = make_config(in, out, tensor);
  {
    const std::lock_guard lock(mutex_);
    config_ = std::move(config);
  }
  buffers_.renegotiate();
  tell_latency(0);
  return true;
}

std::shared_ptr<const StreamConfig> ElementCore::make_config(const GstVideoInfo& in,
                                                             const GstVideoInfo& out, bool tensor) {
  const std::lock_guard lock(mutex_);
  SessionOptions wanted = *session_options_;
  copy_live_settings(settings_.session_for(model_->info().axes), wanted);
  wanted.output_format = tensor ? SampleFormat::F32 : sample_format(out);
  if (!same_live_settings(wanted, *session_options_) ||
      wanted.output_format != session_options_->output_format) {
    session_options_ = std::make_shared<const SessionOptions>(wanted);
  }
  return std::make_shared<const StreamConfig>(
      StreamConfig{in, out, tensor, settings_.alpha, session_options_});
}

/// A change of what the session does begins a new clip. False when flushed meanwhile.
bool ElementCore::take_changed_settings() {
  check_axes();
  std::shared_ptr<const StreamConfig> old;
  {
    const std::lock_guard lock(mutex_);
    old = config_;
    if (same_live_settings(settings_.session_for(model_->info().axes), *old->session)) {
      if (settings_.alpha == old->alpha) return true;
      auto config = std::make_shared<StreamConfig>(*old);
      config->alpha = settings_.alpha;
      config_ = std::move(config);
      return true;
    }
  }
  if (!worker_.drain()) return false;
  auto config = make_config(old->in, old->out, old->tensor);
  const std::lock_guard lock(mutex_);
  config_ = std::move(config);
  return true;
}

/// Passing vectors on as they are is all that can be done, but not silently.
void ElementCore::check_axes() {
  std::string stated;
  {
    const std::lock_guard lock(mutex_);
    // For each frame, so that nothing is copied where there is nothing to tell.
    if (axes_told_ || flips_between(model_->info().axes, settings_.axes)) return;
    stated = model_->info().axes;
  }
  axes_told_ = true;
  const std::string what = stated.empty()
                               ? "The model's normalcrafter.json states no axes"
                               : "The model's axes \"" + stated + "\" are not known here";
  post_warning(element(), what +
                              ", so the property 'axes' has no effect and the vectors stay as they "
                              "are. The properties flip-x, flip-y and flip-z negate components.");
}

// Streaming

GstFlowReturn ElementCore::submit(BufferPtr buffer) {
  const GstFlowReturn flow = worker_.flow();
  if (flow != GST_FLOW_OK) return flow;
  gap_ = 0;
  if (!take_changed_settings()) return GST_FLOW_FLUSHING;
  if (is_jump(buffer.get()) && !worker_.drain()) return GST_FLOW_FLUSHING;

  std::shared_ptr<const StreamConfig> config;
  {
    const std::lock_guard lock(mutex_);
    config = config_;
  }
  try {
    QueuedFrame frame = copy_frame(buffer.get(), std::move(config));
    // Upstream's pool gets it back before this waits for room.
    buffer.reset();
    return worker_.queue_frame(std::move(frame));
  } catch (const Error& error) {
    post_error(element(), error);
  } catch (const std::bad_alloc&) {
    post_error(element(),
               Error(ErrorCode::OutOfMemory, "There is no memory for a frame from upstream."));
  }
  return GST_FLOW_ERROR;
}

/// Cameras and leaky queues mark every frame after a dropped one DISCONT; only a jump in time means
/// another scene.
bool ElementCore::is_jump(GstBuffer* buffer) {
  const GstClockTime pts = GST_BUFFER_PTS(buffer);
  if (!GST_CLOCK_TIME_IS_VALID(pts)) return false;
  GstClockTime threshold;
  GstClockTime duration = GST_BUFFER_DURATION(buffer);
  {
    const std::lock_guard lock(mutex_);
    threshold = settings_.discont_threshold;
    if (!GST_CLOCK_TIME_IS_VALID(duration)) duration = frame_duration(config_->in);
  }
  const GstClockTime end = pts + duration;
  const bool known = GST_CLOCK_TIME_IS_VALID(last_pts_);
  bool jump = false;
  if (known && GST_BUFFER_IS_DISCONT(buffer) && threshold != GST_CLOCK_TIME_NONE) {
    const bool reverse = base_->segment.rate < 0;
    const bool back = reverse ? pts > last_pts_ : pts < last_pts_;
    const GstClockTimeDiff skipped =
        reverse ? GST_CLOCK_DIFF(end, last_pts_) : GST_CLOCK_DIFF(last_end_, pts);
    jump = back || (skipped > 0 && static_cast<GstClockTime>(skipped) > threshold);
  }
  last_pts_ = pts;
  last_end_ = end;
  return jump;
}

gboolean ElementCore::sink_event(EventPtr event) {
  switch (GST_EVENT_TYPE(event.get())) {
    case GST_EVENT_FLUSH_START: {
      const gboolean forwarded = forward(std::move(event));
      worker_.begin_flush();
      return forwarded;
    }
    case GST_EVENT_FLUSH_STOP:
      return flush_stop_event(std::move(event));
    case GST_EVENT_CAPS:
      return caps_event(std::move(event));
    case GST_EVENT_STREAM_START:
    case GST_EVENT_SEGMENT:
      return segment_event(std::move(event));
    case GST_EVENT_SEGMENT_DONE:
    case GST_EVENT_STREAM_GROUP_DONE:
      return drain_and_forward(std::move(event));
    case GST_EVENT_GAP:
      return gap_event(std::move(event));
    case GST_EVENT_EOS:
      return eos_event(std::move(event));
    case GST_EVENT_CUSTOM_DOWNSTREAM:
      if (ends_clip(event.get())) return drain_and_forward(std::move(event));
      break;
    case GST_EVENT_TAG:
      check_orientation(event.get());
      break;
    default:
      break;
  }
  return queue_or_forward(std::move(event));
}

gboolean ElementCore::forward(EventPtr event) {
  return parent_->sink_event(base_, event.release());
}

/// An event that was overtaken by a flush is void.
gboolean ElementCore::drain_and_forward(EventPtr event) {
  return worker_.drain() ? forward(std::move(event)) : FALSE;
}

gboolean ElementCore::queue_or_forward(EventPtr event) {
  if (is_serialized(event) && worker_.queue_event(event)) return TRUE;
  return forward(std::move(event));
}

gboolean ElementCore::flush_stop_event(EventPtr event) {
  return worker_.end_flush([&] {
    forget_position();
    // What was asked while downstream flushed had no answer.
    buffers_.renegotiate();
    return forward(std::move(event));
  });
}

/// Equal caps pass without a drain; for others the base class calls set_caps(), which drains.
gboolean ElementCore::caps_event(EventPtr event) {
  GstCaps* caps = nullptr;
  gst_event_parse_caps(event.get(), &caps);
  if (is_interlaced(caps) || is_incomplete(caps)) {
    if (is_news(caps)) post_refused_input(element(), caps);
    return FALSE;
  }
  bool negotiated;
  {
    const std::lock_guard lock(mutex_);
    negotiated = config_ != nullptr;
  }
  const CapsPtr current(gst_pad_get_current_caps(base_->sinkpad));
  const bool same = negotiated && current && gst_caps_is_equal(current.get(), caps);
  const CapsPtr wanted(gst_caps_ref(caps));
  if (same || forward(std::move(event))) {
    refused_.reset();
    return TRUE;
  }
  tell_refusal(wanted.get());
  return FALSE;
}

/// A pad that refuses caps does so without asking the element, and upstream learns no reason.
void ElementCore::caps_arrive(GstEvent* event) {
  GstCaps* caps = nullptr;
  gst_event_parse_caps(event, &caps);
  if (gst_pad_query_accept_caps(base_->sinkpad, caps)) return;
  if (is_news(caps)) post_refused_input(element(), caps);
}

/// Says why the base class's not-negotiated is that.
void ElementCore::tell_refusal(GstCaps* caps) {
  if (!is_news(caps)) return;
  const CapsPtr accepted(gst_pad_peer_query_caps(base_->srcpad, nullptr));
  post_no_output(element(), GST_MESSAGE_ERROR, caps, accepted.get());
}

/// A refusal because of a flush is none, and each is told once: a pad sends refused caps again with
/// each buffer.
bool ElementCore::is_news(GstCaps* caps) {
  if (worker_.flow() == GST_FLOW_FLUSHING || GST_PAD_IS_FLUSHING(base_->srcpad)) return false;
  if (refused_ && gst_caps_is_equal(refused_.get(), caps)) return false;
  refused_.reset(gst_caps_ref(caps));
  return true;
}

/// Downstream may have asked for other caps in the middle of a stream.
void ElementCore::not_negotiated() {
  const CapsPtr caps(gst_pad_get_current_caps(base_->sinkpad));
  if (caps) tell_refusal(caps.get());
}

gboolean ElementCore::segment_event(EventPtr event) {
  if (!worker_.drain() && GST_EVENT_TYPE(event.get()) == GST_EVENT_SEGMENT) return FALSE;
  worker_.clear_flow(GST_FLOW_EOS);
  if (GST_EVENT_TYPE(event.get()) == GST_EVENT_STREAM_START) forget_told();
  if (GST_EVENT_TYPE(event.get()) == GST_EVENT_SEGMENT) {
    last_pts_ = GST_CLOCK_TIME_NONE;
    gap_ = 0;
    const std::lock_guard lock(mutex_);
    gst_event_copy_segment(event.get(), &segment_);
    position_ = GST_CLOCK_TIME_NONE;
  }
  return forward(std::move(event));
}

/// Gaps keep their place. When they are so long together that downstream would wait for the frames
/// before them in vain, the clip ends. That depends on the stream alone, not on how fast the
/// network is, so that the same stream always gives the same frames.
gboolean ElementCore::gap_event(EventPtr event) {
  GstClockTime duration = GST_CLOCK_TIME_NONE;
  gst_event_parse_gap(event.get(), nullptr, &duration);
  const Latency now = latency();
  if (!GST_CLOCK_TIME_IS_VALID(duration)) duration = now.frame;
  gap_ = saturated_sum(gap_, duration);
  if (gap_ > now.held) return drain_and_forward(std::move(event));
  return queue_or_forward(std::move(event));
}

/// Upstream learns of a flow result with its next buffer, but after EOS there is none.
gboolean ElementCore::eos_event(EventPtr event) {
  if (!worker_.drain()) return FALSE;
  const GstFlowReturn flow = worker_.flow();
  if ((flow == GST_FLOW_NOT_LINKED || flow < GST_FLOW_EOS) && !worker_.fault_reported()) {
    GST_ELEMENT_FLOW_ERROR(element(), flow);
  }
  return forward(std::move(event));
}

/// Players turn the picture as the tag says, but not the vectors in it.
void ElementCore::check_orientation(GstEvent* event) {
  GstTagList* tags = nullptr;
  gst_event_parse_tag(event, &tags);
  gchar* text = nullptr;
  if (!gst_tag_list_get_string(tags, GST_TAG_IMAGE_ORIENTATION, &text)) return;
  const StringPtr orientation(text);
  if (told_orientation_ == orientation.get()) return;
  told_orientation_ = orientation.get();
  if (told_orientation_ == "rotate-0") return;
  GST_ELEMENT_WARNING(element(), STREAM, FORMAT,
                      ("The video is tagged to be shown turned (%s): a player will turn the "
                       "picture of normals, but not the vectors in it.",
                       orientation.get()),
                      ("Turn the video first: decodebin ! videoflip video-direction=auto ! "
                       "videoconvert ! normalcrafter"));
}

/// What scenechange sends at a cut.
bool ElementCore::ends_clip(GstEvent* event) const {
  const std::lock_guard lock(mutex_);
  return settings_.restart_on_key_unit && gst_video_event_is_force_key_unit(event);
}

/// What has been told of one stream is told again of the next.
void ElementCore::forget_told() {
  refused_.reset();
  told_orientation_.clear();
}

void ElementCore::forget_position() {
  last_pts_ = GST_CLOCK_TIME_NONE;
  gap_ = 0;
  const std::lock_guard lock(mutex_);
  gst_segment_init(&segment_, GST_FORMAT_UNDEFINED);
  position_ = GST_CLOCK_TIME_NONE;
}

gboolean ElementCore::src_event(EventPtr event) {
  // A decoder that skips frames because they come late would leave holes in the windows. Who wants
  // frames dropped sets 'leaky'.
  if (GST_EVENT_TYPE(event.get()) == GST_EVENT_QOS) return TRUE;
  if (GST_EVENT_TYPE(event.get()) == GST_EVENT_RECONFIGURE) {
    worker_.clear_flow(GST_FLOW_NOT_LINKED);
    buffers_.renegotiate();
  }
  return parent_->src_event(base_, event.release());
}

// Queries

gboolean ElementCore::query(GstPadDirection direction, GstQuery* query) {
  const bool source = direction == GST_PAD_SRC;
  switch (GST_QUERY_TYPE(query)) {
    case GST_QUERY_LATENCY:
      if (source) return answer_latency(query);
      break;
    case GST_QUERY_POSITION:
      if (source) return answer_position(query);
      break;
    case GST_QUERY_SCHEDULING:
      if (source) {
        // Frames leave when the network has made them, not when downstream asks.
        gst_query_set_scheduling(query, GST_SCHEDULING_FLAG_SEQUENTIAL, 1, -1, 0);
        gst_query_add_scheduling_mode(query, GST_PAD_MODE_PUSH);
        return TRUE;
      }
      break;
    case GST_QUERY_CAPS:
      if (!source) return answer_caps(query);
      break;
    case GST_QUERY_DRAIN:
      if (!source && !worker_.drain()) return FALSE;
      break;
    default:
      break;
  }
  return parent_->query(base_, direction, query);
}

/// A converter in front that gets no common caps fails without sending any, and upstream's error
/// gives no reason. So it is told here, where upstream can give one size only. A warning, for it
/// may be asking on.
bool ElementCore::answer_caps(GstQuery* query) {
  if (!parent_->query(base_, GST_PAD_SINK, query)) return false;
  GstCaps* offered = nullptr;
  GstCaps* answer = nullptr;
  gst_query_parse_caps(query, &offered);
  gst_query_parse_caps_result(query, &answer);
  if (offered == nullptr || !gst_caps_is_empty(answer)) return true;
  const CapsPtr all(gst_pad_get_pad_template_caps(base_->sinkpad));
  CapsPtr input(gst_caps_intersect(offered, all.get()));
  if (!has_fixed_sizes(input.get()) || GST_PAD_IS_FLUSHING(base_->srcpad)) return true;
  const CapsPtr accepted(gst_pad_peer_query_caps(base_->srcpad, nullptr));
  {
    const std::lock_guard lock(mutex_);
    if (offered_ && gst_caps_is_equal(offered_.get(), offered)) return true;
    offered_.reset(gst_caps_ref(offered));
  }
  post_no_output(element(), GST_MESSAGE_WARNING, input.get(), accepted.get());
  return true;
}

bool ElementCore::answer_latency(GstQuery* query) {
  if (!gst_pad_peer_query(base_->sinkpad, query)) return false;
  gboolean live = FALSE;
  GstClockTime min = 0;
  GstClockTime max = GST_CLOCK_TIME_NONE;
  gst_query_parse_latency(query, &live, &min, &max);
  const Latency own = latency();
  min = saturated_sum(min, own.min);
  if (own.leaky != Leaky::No) {
    // What is more than the queue's is dropped. Less than the minimum would stop the pipeline.
    max = std::max(min, GST_CLOCK_TIME_IS_VALID(max) ? std::min(max, own.max) : own.max);
  } else if (GST_CLOCK_TIME_IS_VALID(max)) {
    max = saturated_sum(max, own.max);
  }
  {
    const std::lock_guard lock(mutex_);
    told_latency_ = own;
  }
  GST_DEBUG_OBJECT(element(), "latency %" GST_TIME_FORMAT " to %" GST_TIME_FORMAT,
                   GST_TIME_ARGS(min), GST_TIME_ARGS(max));
  gst_query_set_latency(query, live, min, max);
  return true;
}

/// In stream time. The base class knows only the frames that came in, and reads its segment without
/// a lock.
bool ElementCore::answer_position(GstQuery* query) {
  GstFormat format;
  gst_query_parse_position(query, &format, nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (format == GST_FORMAT_TIME && segment_.format == GST_FORMAT_TIME) {
      // A frame may begin before the segment does.
      const GstClockTime position = std::max(
          GST_CLOCK_TIME_IS_VALID(position_) ? position_ : segment_.position, segment_.start);
      gst_query_set_position(query, GST_FORMAT_TIME,
                             gst_segment_to_stream_time(&segment_, GST_FORMAT_TIME, position));
      return true;
    }
  }
  return gst_pad_peer_query(base_->sinkpad, query);
}

Latency ElementCore::latency() const {
  const WorkerStats now = worker_.stats();
  SessionOptions options;
  guint queue;
  Latency latency;
  {
    const std::lock_guard lock(mutex_);
    options = (opened_ ? active_ : settings_).session;
    queue = settings_.max_size_buffers;
    latency.leaky = settings_.leaky;
    latency.frame = config_ ? frame_duration(config_->in) : kUnknownFrameDuration;
  }
  const double window_seconds =
      now.session.windows > 0
          ? network_seconds(now.session) / static_cast<double>(now.session.windows)
          : 0;
  const GstClockTime per_frame =
      std::max(latency.frame, to_clock_time(window_seconds / std::max(1, options.step_size)));
  const GstClockTime network = to_clock_time(window_seconds * options.windows_per_pass);
  const guint64 held = frames_held(options);
  latency.held = saturated_product(held, latency.frame);
  latency.min = saturated_sum(saturated_product(held, per_frame), network);
  latency.max = saturated_sum(saturated_product(held + queue, per_frame), network);
  return latency;
}

/// Makes a pipeline that has asked ask again.
void ElementCore::tell_latency(double tolerance) {
  const Latency now = latency();
  {
    const std::lock_guard lock(mutex_);
    if (!told_latency_) return;
    const auto near = [tolerance](GstClockTime told, GstClockTime is) {
      return std::abs(static_cast<double>(is) - static_cast<double>(told)) <=
             static_cast<double>(told) * tolerance;
    };
    if (now.leaky == told_latency_->leaky && near(told_latency_->min, now.min) &&
        near(told_latency_->max, now.max)) {
      return;
    }
    told_latency_ = now;
  }
  gst_element_post_message(element(), gst_message_new_latency(GST_OBJECT(base_)));
}

// The worker's side

std::unique_ptr<Session> ElementCore::create_session(const SessionOptions& options,
                                                     std::function<void(const NormalView&)> frame) {
  std::shared_ptr<Model> model;
  {
    const std::lock_guard lock(mutex_);
    model = model_;
  }
  SessionCallbacks callbacks;
  callbacks.frame = std::move(frame);
  callbacks.progress = [this](const Progress& now) { progress(now); };
  callbacks.log = log_to(element());
  return engine_->create_session(std::move(model), options, std::move(callbacks));
}

GstFlowReturn ElementCore::push_frame(const NormalView& picture, const PendingFrame& frame) {
  const StreamConfig& config = *frame.config;
  BufferPtr buffer = buffers_.acquire();
  // What downstream's pool gives may be too small or read-only.
  if (!buffer || !write_picture(picture, frame, buffer.get())) {
    buffer = buffers_.allocate(config.output_bytes());
    if (!buffer || !write_picture(picture, frame, buffer.get())) {
      throw Error(ErrorCode::OutOfMemory, "There is no memory for an output frame.");
    }
  }
  restore_metadata(frame.metadata.get(), config.in, config.out, buffer.get());
  if (GST_BUFFER_PTS_IS_VALID(buffer.get())) {
    const std::lock_guard lock(mutex_);
    position_ = GST_BUFFER_PTS(buffer.get());
  }
  return gst_pad_push(base_->srcpad, buffer.release());
}

void ElementCore::push_event(EventPtr event) {
  gst_pad_push_event(base_->srcpad, event.release());
}

void ElementCore::store_event(EventPtr event) {
  gst_pad_store_sticky_event(base_->srcpad, event.get());
}

void ElementCore::loading(Loading state, const char* reason) {
  told_percent_ = state == Loading::Started ? 0 : -1;
  std::string model;
  {
    const std::lock_guard lock(mutex_);
    model = model_->info().directory;
  }
  post_loading(element(), state, model, 0, reason);
}

void ElementCore::progress(const Progress& now) {
  GST_LOG_OBJECT(element(), "%s %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT,
                 now.stage == Stage::Load ? "load" : "frames", static_cast<guint64>(now.done),
                 static_cast<guint64>(now.total));
  if (now.stage != Stage::Load) return stage_progress(now);
  if (now.total == 0 || told_percent_ < 0) return;
  const int percent =
      static_cast<int>(100.0 * static_cast<double>(now.done) / static_cast<double>(now.total));
  if (percent < told_percent_ + kPercentStep) return;
  told_percent_ = percent;
  post_loading(element(), Loading::Continues, model_->info().directory, percent, nullptr);
}

// Each stage's begin and end, and in between what a person can follow.
void ElementCore::stage_progress(const Progress& now) {
  const gint64 time = g_get_monotonic_time();
  if (now.done != 0 && now.done < now.total && time < told_stage_ + kStageInterval) return;
  told_stage_ = time;
  post_stage(element(), now);
}

void ElementCore::windows_done(const SessionStats& before, const WorkerStats& now) {
  post_windows(element(), before, now, latency().min);
  // What is measured varies a little from window to window.
  tell_latency(0.2);
}

void ElementCore::failed(const Error& error) {
  post_error(element(), error);
}

}  // namespace normalcrafter
