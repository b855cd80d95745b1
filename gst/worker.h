// The element's thread: one ordered queue of frames and events in, a session in the middle, pushes
// out.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "gst_ptr.h"
#include "normalcrafter/engine.h"
#include "pixel_formats.h"
#include "settings.h"

namespace normalcrafter {

/// How frames are converted and processed from one negotiation to the next. Never changed once
/// frames refer to it.
struct StreamConfig {
  GstVideoInfo in;
  GstVideoInfo out;     ///< of a tensor's picture: its size
  bool tensor = false;  ///< frames leave as width x height x 3 floats
  Alpha alpha = Alpha::Opaque;
  std::shared_ptr<const SessionOptions> session;

  gsize output_bytes() const;
};

/// What remains of a frame while the session holds its picture.
struct PendingFrame {
  BufferPtr metadata;
  std::shared_ptr<const StreamConfig> config;
  std::optional<AlphaPlane> alpha;  ///< if it is to be copied
};

/// A frame on its way to the session.
struct QueuedFrame {
  PackedFrame picture;
  PendingFrame pending;
};

enum class Loading { Started, Continues, Finished, Failed, Cancelled };

struct WorkerStats {
  SessionStats session;  ///< summed over the sessions of this run; `live` is the present one's
  std::uint64_t dropped = 0;
  unsigned queued = 0;  ///< frames waiting now
};

/// What the worker does through its element. Called on the worker's thread, no lock held.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;
  /// Throws Error.
  virtual std::unique_ptr<Session> create_session(const SessionOptions& options,
                                                  std::function<void(const NormalView&)> frame) = 0;
  /// Throws Error when it is the element that fails, before downstream has seen the frame.
  virtual GstFlowReturn push_frame(const NormalView& picture, const PendingFrame& frame) = 0;
  virtual void push_event(EventPtr event) = 0;
  /// Keeps a sticky event that can no longer be pushed in order.
  virtual void store_event(EventPtr event) = 0;
  virtual void loading(Loading state, const char* reason) = 0;
  /// One or more windows have run since the last call, when the statistics were `before`.
  virtual void windows_done(const SessionStats& before, const WorkerStats& now) = 0;
  virtual void failed(const Error& error) = 0;
};

/// Threads: start(), join() and open() on the thread that changes the state; queue_frame(),
/// queue_event(), drain() and end_flush() on the streaming thread; begin_flush(), unblock(),
/// clear_flow() and the rest on any.
class Worker {
 public:
  explicit Worker(WorkerHost& host) : host_(host) {}
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Makes the first session, which shows settings that cannot work. Throws Error, also on the
  /// worker's own thread.
  void open(std::shared_ptr<const SessionOptions> options);
  /// Begins to load the weights and to take frames.
  void start();
  /// Makes everyone who waits here return, also the session; the thread ends within one of the
  /// network's blocks, or when downstream returns from a push.
  void unblock();
  /// Waits for the thread's end and forgets all that is queued, and the session. On that thread
  /// itself it only complains: what is left is forgotten by the next open(), or at the end.
  void join();

  void set_limits(Leaky leaky, unsigned frames);

  /// Waits while the queue is full. What it returns is what upstream shall get.
  GstFlowReturn queue_frame(QueuedFrame frame);
  /// Lets an event follow the last frame before it. False, with the event left to the caller, if
  /// there is nothing that it must wait for.
  bool queue_event(EventPtr& event);
  /// Ends the clip and waits until every frame and event has been pushed. False if that did not
  /// happen because of a flush or a state change.
  bool drain();

  void begin_flush();
  /// Waits until nothing is being pushed (downstream flushes) and forgets what is queued.
  /// `forward` runs before frames are taken again.
  template <typename Forward>
  bool end_flush(Forward forward) {
    if (!is_flushing()) begin_flush();  // a stop without a start
    forget_queued();
    const bool forwarded = forward();
    resume();
    return forwarded;
  }

  /// The result of the last push or of a fault; OK while frames are welcome.
  GstFlowReturn flow() const;
  /// True if the flow result is the element's own fault, about which it has told.
  bool fault_reported() const;
  /// Makes `flow` OK again if that is what it is, or what a push of this moment will return.
  void clear_flow(GstFlowReturn flow);
  WorkerStats stats() const;

 private:
  struct DrainMark {
    std::uint64_t number;
  };
  using Item = std::variant<QueuedFrame, EventPtr, DrainMark>;
  using Pending = std::variant<PendingFrame, EventPtr>;
  using Lock = std::unique_lock<std::mutex>;
  static inline const std::thread::id kNobody;

  void run();
  void prepare();
  bool step();
  void process(QueuedFrame& frame);
  void process(EventPtr& event);
  void process(DrainMark& mark);
  template <typename Work>
  void guarded(Work work);
  void use_session(const std::shared_ptr<const SessionOptions>& options);
  void replace_session(std::unique_ptr<Session> session);
  void deliver(const NormalView& picture);
  void push_events();
  void report_windows();
  void fail(const Error& error);
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  bool is_outdated() const;  ///< takes the lock
  void stop_stream(Lock& held, GstFlowReturn flow, bool reported);
  std::deque<EventPtr> take_events(Lock& held);
  void store(std::deque<EventPtr> events);
  bool drop_oldest(Lock& held);
  bool is_flushing() const;
  void forget_queued();
  void resume();
  bool blocked() const { return stopping_ || flushing_; }
  bool outdated() const { return stopping_ || seen_epoch_ != epoch_; }
  /// What was being processed when a flush came will never be pushed.
  bool holds_nothing() const {
    return queue_.empty() && pending_.empty() && (!busy_ || outdated());
  }

  WorkerHost& host_;
  std::thread thread_;

  /// Never held across a push, a message, or a call of the session but cancel() and stats().
  mutable std::mutex mutex_;
  std::condition_variable work_;  ///< the worker waits: an item, a flush or the end
  std::condition_variable room_;  ///< queue_frame() waits
  std::condition_variable calm_;  ///< drain() and end_flush() wait

  // Guarded by mutex_.
  std::deque<Item> queue_;
  std::deque<Pending> pending_;  ///< frames in the session, and the events between them
  unsigned frames_queued_ = 0;
  unsigned limit_ = 1;
  Leaky leaky_ = Leaky::No;
  bool busy_ = false;       ///< an item is being processed
  bool clip_open_ = false;  ///< the session has had frames and no end, even if all have left it
  std::thread::id pushing_ = kNobody;  ///< who is in a push, or stores events
  GstFlowReturn cleared_while_pushing_ = GST_FLOW_OK;
  bool loading_ = false;  ///< weights are loading, which a flush leaves alone
  bool flushing_ = false;
  bool stopping_ = true;
  bool fault_reported_ = false;
  bool discont_next_ = false;  ///< the next frame queued follows dropped ones
  GstFlowReturn flow_ = GST_FLOW_OK;
  std::uint64_t epoch_ = 0;  ///< counts flushes; what belongs to an earlier one is void
  std::uint64_t seen_epoch_ = 0;
  std::uint64_t drains_asked_ = 0;
  std::uint64_t drains_done_ = 0;
  std::uint64_t dropped_ = 0;
  std::unique_ptr<Session> session_;  ///< replaced by the worker only, which may use it unlocked
  SessionStats past_;                 ///< of the sessions that were replaced

  // The worker's own.
  std::shared_ptr<const SessionOptions> options_;
  bool prepared_ = false;            ///< the weights have been loaded once in this run
  bool downstream_stopped_ = false;  ///< the exception on its way is deliver()'s own
  SessionStats reported_;            ///< as of the last windows_done()
};

}  // namespace normalcrafter
