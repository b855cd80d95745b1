// What the element does, apart from being a GObject: state changes, events, queries, frames.
#pragma once

#include <gst/base/gstbasetransform.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "output_buffers.h"
#include "worker.h"

namespace normalcrafter {

/// How much the element adds to a live pipeline's latency.
struct Latency {
  GstClockTime min = 0;    ///< for the frames that a window needs, and the network's time
  GstClockTime max = 0;    ///< with the queue full
  GstClockTime frame = 0;  ///< a frame's duration
  GstClockTime held = 0;   ///< the stream's time of the frames that a window needs
  Leaky leaky = Leaky::No;
};

/// Lives and dies with its GstBaseTransform. Methods named after a vfunc are called where
/// GstBaseTransform calls that; settings, statistics and queries on any thread.
class ElementCore final : public WorkerHost {
 public:
  ElementCore(GstBaseTransform* element, GstBaseTransformClass* parent);

  // State changes, on the thread that makes them.
  bool open();     ///< READY→PAUSED: what is cheap to check. False after posting the one error.
  bool start();    ///< the pads are active
  void unblock();  ///< PAUSED→READY, before anything waits for a stream lock
  void stop();
  void release();  ///< READY→NULL: gives the model back

  // Properties.
  bool set_property(guint id, const GValue* value);
  bool get_property(guint id, GValue* value) const;
  GstStructure* stats() const;  ///< the caller owns it

  // Negotiation.
  SizeRule size_rule() const;
  bool set_caps(GstCaps* in, GstCaps* out);

  // Streaming.
  GstFlowReturn submit(BufferPtr buffer);
  void not_negotiated();  ///< the base class could not submit a buffer for want of common caps
  void caps_arrive(GstEvent* event);  ///< before the sink pad accepts or refuses them
  gboolean sink_event(EventPtr event);
  gboolean src_event(EventPtr event);
  gboolean query(GstPadDirection direction, GstQuery* query);

  // WorkerHost.
  std::unique_ptr<Session> create_session(const SessionOptions& options,
                                          std::function<void(const NormalView&)> frame) override;
  GstFlowReturn push_frame(const NormalView& picture, const PendingFrame& frame) override;
  void push_event(EventPtr event) override;
  void store_event(EventPtr event) override;
  void loading(Loading state, const char* reason) override;
  void windows_done(const SessionStats& before, const WorkerStats& now) override;
  void failed(const Error& error) override;

 private:
  ModelOptions model_options();
  void open_model();
  std::shared_ptr<const StreamConfig> make_config(const GstVideoInfo& in, const GstVideoInfo& out,
                                                  bool tensor);
  bool take_changed_settings();
  void check_axes();
  void check_orientation(GstEvent* event);
  void tell_refusal(GstCaps* caps);
  bool is_news(GstCaps* caps);
  bool is_jump(GstBuffer* buffer);
  gboolean forward(EventPtr event);
  gboolean drain_and_forward(EventPtr event);
  gboolean queue_or_forward(EventPtr event);
  gboolean caps_event(EventPtr event);
  gboolean segment_event(EventPtr event);
  gboolean gap_event(EventPtr event);
  gboolean eos_event(EventPtr event);
  gboolean flush_stop_event(EventPtr event);
  bool ends_clip(GstEvent* event) const;
  void forget_told();
  void forget_position();
  bool answer_caps(GstQuery* query);
  bool answer_latency(GstQuery* query);
  bool answer_position(GstQuery* query);
  Latency latency() const;
  void tell_latency(double tolerance);
  void progress(const Progress& progress);
  void stage_progress(const Progress& progress);
  GstElement* element() const { return GST_ELEMENT_CAST(base_); }

  GstBaseTransform* const base_;
  GstBaseTransformClass* const parent_;

  mutable std::mutex mutex_;  ///< guards the next group; never held across a push or a message
  Settings settings_;         ///< as set
  Settings active_;           ///< as they were at READY→PAUSED
  bool opened_ = false;
  std::shared_ptr<const StreamConfig> config_;
  std::shared_ptr<Model> model_;
  GstSegment segment_;  ///< that the pushed frames belong to
  GstClockTime position_ = GST_CLOCK_TIME_NONE;
  std::optional<Latency> told_latency_;  ///< as last answered
  CapsPtr offered_;                      ///< by upstream, and not possible; that has been told

  // The streaming thread's own.
  GstClockTime last_pts_ = GST_CLOCK_TIME_NONE;
  GstClockTime last_end_ = GST_CLOCK_TIME_NONE;
  GstClockTime gap_ = 0;          ///< length of the gaps since the last frame
  CapsPtr refused_;               ///< input caps whose refusal has been told
  std::string told_orientation_;  ///< that was warned about

  // The state changes' own.
  Engine* engine_ = nullptr;
  ModelOptions model_options_;  ///< that model_ was opened with
  bool axes_told_ = false;      ///< before the worker starts, then the streaming thread

  // The worker's own.
  int told_percent_ = -1;
  gint64 told_stage_ = 0;  // when, by g_get_monotonic_time()

  OutputBuffers buffers_;
  std::shared_ptr<const SessionOptions> session_options_;  ///< state changes, then streaming thread
  Worker worker_;
};

}  // namespace normalcrafter
