#include "messages.h"

#include <memory>

#include "debug.h"
#include "gst_ptr.h"

namespace normalcrafter {
namespace {

struct Domain {
  GQuark quark;
  gint code;
  const char* advice;
};

Domain domain_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::Settings:
      return {GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, "Change the properties named."};
    case ErrorCode::NotFound:
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
              "The property 'model' names the model's directory."};
    case ErrorCode::OpenRead:
    case ErrorCode::InvalidModel:
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_OPEN_READ,
              "Check the file, or fetch the model again."};
    case ErrorCode::OutOfMemory:
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
              "Lower max-resolution, window-size, windows-per-pass or the chunk sizes, choose a "
              "16-bit dtype, or set offload-mode=staged."};
    case ErrorCode::DeviceUnavailable:
      return {GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT,
              "Install what is missing, or choose another device with the property 'device'."};
    case ErrorCode::NetworkFailed:
    case ErrorCode::NonFinite:
    case ErrorCode::Cancelled:
      break;
  }
  return {GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED,
          "The element can be set to NULL and played again."};
}

/// An element that may be gone.
class WeakElement {
 public:
  explicit WeakElement(GstElement* element) { g_weak_ref_init(&weak_, element); }
  ~WeakElement() { g_weak_ref_clear(&weak_); }
  WeakElement(const WeakElement&) = delete;
  WeakElement& operator=(const WeakElement&) = delete;

  /// The caller owns the reference.
  GstElement* get() { return static_cast<GstElement*>(g_weak_ref_get(&weak_)); }

 private:
  GWeakRef weak_;
};

void log_line(GstElement* element, LogLevel level, const std::string& text) {
  switch (level) {
    case LogLevel::Debug:
      GST_DEBUG_OBJECT(element, "%s", text.c_str());
      break;
    case LogLevel::Info:
      GST_INFO_OBJECT(element, "%s", text.c_str());
      break;
    case LogLevel::Warning:
      post_warning(element, text);
      break;
  }
}

}  // namespace

void post_error(GstElement* element, const Error& error) {
  const Domain domain = domain_of(error.code());
  std::string text = error.what();
  // Most applications show the message only, so advice that helps everyone belongs there.
  const bool has_advice = text.find("max-resolution") != std::string::npos;
  if (error.code() == ErrorCode::OutOfMemory && !has_advice) {
    text += std::string(text.ends_with('.') ? " " : ". ") + domain.advice;
  }
  gst_element_message_full(element, GST_MESSAGE_ERROR, domain.quark, domain.code,
                           g_strdup(text.c_str()), g_strdup(domain.advice), __FILE__, GST_FUNCTION,
                           __LINE__);
}

void post_warning(GstElement* element, const std::string& text) {
  GST_ELEMENT_WARNING(element, LIBRARY, SETTINGS, ("%s", text.c_str()), (nullptr));
}

void post_loading(GstElement* element, Loading state, const std::string& model, int percent,
                  const char* reason) {
  GstProgressType type = GST_PROGRESS_TYPE_START;
  std::string text = "Loading " + model;
  switch (state) {
    case Loading::Started:
      break;
    case Loading::Continues:
      type = GST_PROGRESS_TYPE_CONTINUE;
      text += " (" + std::to_string(percent) + " %)";
      break;
    case Loading::Finished:
      type = GST_PROGRESS_TYPE_COMPLETE;
      text = "Loaded " + model;
      break;
    case Loading::Failed:
      type = GST_PROGRESS_TYPE_ERROR;
      text += std::string(" failed: ") + reason;
      break;
    case Loading::Cancelled:
      type = GST_PROGRESS_TYPE_CANCELED;
      text += " was cancelled";
      break;
  }
  // A path may be of any bytes, a message's field may not, and gst-launch-1.0 crashes without it.
  const StringPtr valid(g_utf8_make_valid(text.c_str(), -1));
  GstMessage* message = gst_message_new_progress(GST_OBJECT(element), type, "load", valid.get());
  if (state == Loading::Continues) {
    gst_structure_set(gst_message_writable_structure(message), "percent", G_TYPE_INT, percent,
                      nullptr);
  }
  gst_element_post_message(element, message);
}

void post_stage(GstElement* element, const Progress& now) {
  GstStructure* structure =
      gst_structure_new("normalcrafter-stage", "stage", G_TYPE_STRING, stage_name(now.stage),
                        "done", G_TYPE_UINT64, static_cast<guint64>(now.done), "total",
                        G_TYPE_UINT64, static_cast<guint64>(now.total), nullptr);
  gst_element_post_message(element, gst_message_new_element(GST_OBJECT(element), structure));
}

void post_windows(GstElement* element, const SessionStats& before, const WorkerStats& now,
                  GstClockTime latency) {
  const auto seconds = [&](Stage stage) {
    const int i = static_cast<int>(stage);
    return now.session.stage_seconds[i] - before.stage_seconds[i];
  };
  GstStructure* structure = gst_structure_new(
      "normalcrafter-window", "windows", G_TYPE_UINT64, static_cast<guint64>(now.session.windows),
      "windows-in-pass", G_TYPE_UINT, static_cast<guint>(now.session.windows - before.windows),
      "frames-in", G_TYPE_UINT64, static_cast<guint64>(now.session.frames_in), "frames-out",
      G_TYPE_UINT64, static_cast<guint64>(now.session.frames_out), "frames-dropped", G_TYPE_UINT64,
      static_cast<guint64>(now.dropped), "frames-queued", G_TYPE_UINT, now.queued, "clip-seconds",
      G_TYPE_DOUBLE, seconds(Stage::Clip), "encode-seconds", G_TYPE_DOUBLE, seconds(Stage::Encode),
      "unet-seconds", G_TYPE_DOUBLE, seconds(Stage::Unet), "decode-seconds", G_TYPE_DOUBLE,
      seconds(Stage::Decode), "latency", G_TYPE_UINT64, static_cast<guint64>(latency), nullptr);
  gst_element_post_message(element, gst_message_new_element(GST_OBJECT(element), structure));
}

LogFunction log_to(GstElement* element) {
  auto weak = std::make_shared<WeakElement>(element);
  return [weak](LogLevel level, const std::string& text) {
    GstElement* alive = weak->get();
    if (alive == nullptr) return;
    log_line(alive, level, text);
    gst_object_unref(alive);
  };
}

}  // namespace normalcrafter
