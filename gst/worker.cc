#include "worker.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace normalcrafter {
namespace {

void add(SessionStats& sum, const SessionStats& part) {
  sum.frames_in += part.frames_in;
  sum.frames_out += part.frames_out;
  sum.windows += part.windows;
  sum.threads = part.threads;
  for (int stage = 0; stage < kStageCount; ++stage) {
    sum.stage_seconds[stage] += part.stage_seconds[stage];
  }
  sum.live = part.live;
  sum.peak.frames = std::max(sum.peak.frames, part.peak.frames);
  sum.peak.embeddings = std::max(sum.peak.embeddings, part.peak.embeddings);
  sum.peak.latents = std::max(sum.peak.latents, part.peak.latents);
  sum.peak.normals = std::max(sum.peak.normals, part.peak.normals);
}

void mark_discont(QueuedFrame& frame) {
  GST_BUFFER_FLAG_SET(frame.pending.metadata.get(), GST_BUFFER_FLAG_DISCONT);
}

}  // namespace

gsize StreamConfig::output_bytes() const {
  if (!tensor) return GST_VIDEO_INFO_SIZE(&out);
  return sizeof(float) * 3 * GST_VIDEO_INFO_WIDTH(&out) * GST_VIDEO_INFO_HEIGHT(&out);
}

Worker::~Worker() {
  unblock();
  join();
}

void Worker::open(std::shared_ptr<const SessionOptions> options) {
  if (is_own_thread()) {
    throw Error(ErrorCode::NetworkFailed,
                "The element cannot be started from its own streaming thread, which it would have "
                "to wait for: start it from another one, for example with "
                "gst_element_call_async().");
  }
  join();  // a thread that stopped the element itself
  options_ = std::move(options);
  {
    const Lock lock(mutex_);
    past_ = {};
    dropped_ = 0;
  }
  reported_ = {};
  prepared_ = false;
  replace_session(host_.create_session(*options_, [this](const NormalView& v) { deliver(v); }));
}

void Worker::start() {
  {
    const Lock lock(mutex_);
    stopping_ = flushing_ = fault_reported_ = discont_next_ = clip_open_ = false;
    flow_ = GST_FLOW_OK;
    seen_epoch_ = epoch_;
  }
  thread_ = std::thread([this] { run(); });
}

void Worker::unblock() {
  const Lock lock(mutex_);
  stopping_ = true;
  drains_done_ = drains_asked_;
  if (session_) session_->cancel();
  work_.notify_all();
  room_.notify_all();
  calm_.notify_all();
}

void Worker::join() {
  if (is_own_thread()) {
    g_warning(
        "An element's state was changed from its own streaming thread (a pad probe, or a bus sync "
        "handler). Use gst_element_call_async() for that.");
    return;  // the session is further up the stack
  }
  if (thread_.joinable()) thread_.join();
  {
    const Lock lock(mutex_);
    queue_.clear();
    pending_.clear();
    frames_queued_ = 0;
  }
  replace_session(nullptr);
}

void Worker::set_limits(Leaky leaky, unsigned frames) {
  const Lock lock(mutex_);
  leaky_ = leaky;
  limit_ = frames;
  room_.notify_all();
}

GstFlowReturn Worker::queue_frame(QueuedFrame frame) {
  Lock lock(mutex_);
  for (;;) {
    if (blocked()) return GST_FLOW_FLUSHING;
    if (flow_ != GST_FLOW_OK) return flow_;
    if (frames_queued_ < limit_) break;
    if (leaky_ == Leaky::Upstream) {
      ++dropped_;
      discont_next_ = true;
      return GST_FLOW_OK;
    }
    if (leaky_ == Leaky::Downstream && drop_oldest(lock)) continue;
    room_.wait(lock);
  }
  if (std::exchange(discont_next_, false)) mark_discont(frame);
  queue_.emplace_back(std::move(frame));
  ++frames_queued_;
  work_.notify_all();
  return GST_FLOW_OK;
}

/// The frame after the gap says so, whether it waits already or is still to come.
bool Worker::drop_oldest(Lock& held) {
  const auto is_frame = [](const Item& item) { return std::holds_alternative<QueuedFrame>(item); };
  const auto oldest = std::find_if(queue_.begin(), queue_.end(), is_frame);
  if (oldest == queue_.end()) return false;
  const auto next = queue_.erase(oldest);
  const auto follower = std::find_if(next, queue_.end(), is_frame);
  if (follower != queue_.end()) {
    mark_discont(std::get<QueuedFrame>(*follower));
  } else {
    discont_next_ = true;
  }
  --frames_queued_;
  ++dropped_;
  return true;
}

bool Worker::queue_event(EventPtr& event) {
  const Lock lock(mutex_);
  if (blocked() || holds_nothing()) return false;
  queue_.emplace_back(std::move(event));
  work_.notify_all();
  return true;
}

bool Worker::drain() {
  Lock lock(mutex_);
  if (blocked()) return false;
  if (holds_nothing() && !clip_open_) return true;
  const std::uint64_t mine = ++drains_asked_;
  queue_.emplace_back(DrainMark{mine});
  work_.notify_all();
  calm_.wait(lock, [&] { return blocked() || drains_done_ >= mine; });
  return !blocked();
}

void Worker::begin_flush() {
  const Lock lock(mutex_);
  flushing_ = true;
  ++epoch_;
  if (session_ && !loading_) session_->cancel();
  work_.notify_all();
  room_.notify_all();
  calm_.notify_all();
}

bool Worker::is_flushing() const {
  const Lock lock(mutex_);
  return flushing_;
}

void Worker::forget_queued() {
  std::deque<EventPtr> events;
  {
    Lock lock(mutex_);
    // A seek from within a push (a probe, a signal's handler) flushes on the worker's own thread.
    const bool own_push = pushing_ == std::this_thread::get_id();
    calm_.wait(lock, [&] { return stopping_ || own_push || pushing_ == kNobody; });
    events = take_events(lock);
    drains_done_ = drains_asked_;
  }
  store(std::move(events));
}

void Worker::resume() {
  const Lock lock(mutex_);
  flushing_ = fault_reported_ = discont_next_ = false;
  flow_ = GST_FLOW_OK;
  work_.notify_all();
}

/// Empties the queue: nothing of it is processed any more.
std::deque<EventPtr> Worker::take_events(Lock& held) {
  std::deque<EventPtr> events;
  for (Pending& pending : pending_) {
    if (auto* event = std::get_if<EventPtr>(&pending)) events.push_back(std::move(*event));
  }
  for (Item& item : queue_) {
    if (auto* event = std::get_if<EventPtr>(&item)) events.push_back(std::move(*event));
  }
  pending_.clear();
  queue_.clear();
  frames_queued_ = 0;
  clip_open_ = false;  // the session is reset
  room_.notify_all();
  calm_.notify_all();
  return events;
}

void Worker::store(std::deque<EventPtr> events) {
  for (EventPtr& event : events) {
    if (is_sticky(event)) host_.store_event(std::move(event));
  }
}

GstFlowReturn Worker::flow() const {
  const Lock lock(mutex_);
  return blocked() ? GST_FLOW_FLUSHING : flow_;
}

bool Worker::fault_reported() const {
  const Lock lock(mutex_);
  return fault_reported_;
}

void Worker::clear_flow(GstFlowReturn flow) {
  const Lock lock(mutex_);
  if (flow_ == flow) flow_ = GST_FLOW_OK;
  cleared_while_pushing_ = flow;
}

WorkerStats Worker::stats() const {
  const Lock lock(mutex_);
  WorkerStats stats;
  stats.session = past_;
  if (session_) add(stats.session, session_->stats());
  stats.dropped = dropped_;
  stats.queued = frames_queued_;
  return stats;
}

void Worker::run() {
  pthread_setname_np(pthread_self(), "normalcrafter");
  guarded([this] { prepare(); });
  while (step()) {
  }
  if (session_ && options_->offload_after) {
    session_->reset();
    session_->offload();
  }
}

/// Loads the weights for the first time in this run; later the session does it when it must. Throws
/// Error.
void Worker::prepare() {
  if (prepared_) return;
  {
    const Lock lock(mutex_);
    if (outdated()) throw Error(ErrorCode::Cancelled, "flushed");
    loading_ = true;
  }
  host_.loading(Loading::Started, nullptr);
  const auto end = [this](Loading state, const char* reason) {
    {
      const Lock lock(mutex_);
      loading_ = false;
    }
    host_.loading(state, reason);
  };
  try {
    session_->prepare();
  } catch (const Error& error) {
    const bool cancelled = error.code() == ErrorCode::Cancelled;
    end(cancelled ? Loading::Cancelled : Loading::Failed, error.what());
    throw;
  }
  prepared_ = true;
  end(Loading::Finished, nullptr);
}

/// One item, or one reaction to a flush. False at the end.
bool Worker::step() {
  Lock lock(mutex_);
  work_.wait(lock, [&] { return outdated() || (!flushing_ && !queue_.empty()); });
  if (stopping_) return false;
  if (outdated()) {
    seen_epoch_ = epoch_;
    lock.unlock();
    if (session_) session_->reset();
    return true;
  }
  Item item = std::move(queue_.front());
  queue_.pop_front();
  busy_ = true;
  if (auto* frame = std::get_if<QueuedFrame>(&item)) {
    // The configuration stays: process() still asks which session it needs.
    pending_.emplace_back(PendingFrame{std::move(frame->pending.metadata), frame->pending.config,
                                       std::move(frame->pending.alpha)});
    --frames_queued_;
    clip_open_ = true;
    room_.notify_all();
  } else if (auto* event = std::get_if<EventPtr>(&item)) {
    pending_.emplace_back(std::move(*event));
  }
  lock.unlock();
  std::visit([this](auto& next) { process(next); }, item);
  lock.lock();
  busy_ = false;
  if (const auto* mark = std::get_if<DrainMark>(&item)) {
    drains_done_ = std::max(drains_done_, mark->number);
    clip_open_ = false;
  }
  calm_.notify_all();
  return true;
}

void Worker::process(QueuedFrame& frame) {
  guarded([&] {
    use_session(frame.pending.config->session);
    session_->push(frame.picture.view());
    report_windows();
  });
}

void Worker::process(EventPtr&) {
  push_events();
}

void Worker::process(DrainMark&) {
  guarded([this] {
    if (session_) session_->finish();
    report_windows();
    push_events();
    const Lock lock(mutex_);
    if (!outdated() && !pending_.empty()) {
      throw Error(ErrorCode::NetworkFailed, "The engine delivered fewer frames than it was given.");
    }
  });
}

bool Worker::is_outdated() const {
  const Lock lock(mutex_);
  return outdated();
}

/// Runs the session and ends the stream, not the program, when it throws.
template <typename Work>
void Worker::guarded(Work work) {
  try {
    work();
  } catch (const Error& error) {
    fail(error);
  } catch (const std::bad_alloc&) {
    fail(Error(ErrorCode::OutOfMemory, "The host's memory ran out."));
  } catch (const std::exception& error) {
    fail(Error(ErrorCode::NetworkFailed, error.what()));
  }
}

void Worker::use_session(const std::shared_ptr<const SessionOptions>& options) {
  if (!session_ || options != options_) {
    // The old one holds no frames by now, and goes last: with the last session of a model go its
    // weights.
    replace_session(host_.create_session(*options, [this](const NormalView& v) { deliver(v); }));
    options_ = options;
  }
  prepare();
  // A flush leaves loading alone, and a session that was being made could not be cancelled.
  if (is_outdated()) throw Error(ErrorCode::Cancelled, "flushed");
}

void Worker::replace_session(std::unique_ptr<Session> session) {
  const Lock lock(mutex_);
  if (session_) {
    const SessionStats last = session_->stats();
    add(past_, last);
    past_.live = {};
  }
  session_.swap(session);
}

/// The session's callback: the oldest frame that is pending is this one.
void Worker::deliver(const NormalView& picture) {
  PendingFrame frame;
  {
    const Lock lock(mutex_);
    if (outdated()) throw Error(ErrorCode::Cancelled, "flushed");
    if (pending_.empty()) {
      throw Error(ErrorCode::NetworkFailed, "The engine delivered more frames than it was given.");
    }
    frame = std::move(std::get<PendingFrame>(pending_.front()));
    pending_.pop_front();
    pushing_ = std::this_thread::get_id();
    cleared_while_pushing_ = GST_FLOW_OK;
  }
  GstFlowReturn flow = GST_FLOW_ERROR;
  std::exception_ptr fault;
  try {
    flow = host_.push_frame(picture, frame);
  } catch (...) {
    fault = std::current_exception();
  }
  {
    Lock lock(mutex_);
    pushing_ = kNobody;
    calm_.notify_all();
    if (outdated()) throw Error(ErrorCode::Cancelled, "flushed");
    if (fault) std::rethrow_exception(fault);
    if (flow == cleared_while_pushing_) flow = GST_FLOW_OK;  // it was told before it came here
    if (flow < GST_FLOW_OK) {
      stop_stream(lock, flow, false);
      downstream_stopped_ = true;
      throw Error(ErrorCode::Cancelled, "downstream takes no more frames");
    }
  }
  push_events();
}

/// Pushes the events that no frame precedes any more.
void Worker::push_events() {
  for (;;) {
    EventPtr event;
    {
      const Lock lock(mutex_);
      if (outdated() || pending_.empty()) return;
      auto* first = std::get_if<EventPtr>(&pending_.front());
      if (first == nullptr) return;
      event = std::move(*first);
      pending_.pop_front();
      pushing_ = std::this_thread::get_id();
    }
    host_.push_event(std::move(event));
    const Lock lock(mutex_);
    pushing_ = kNobody;
    calm_.notify_all();
  }
}

void Worker::report_windows() {
  const WorkerStats now = stats();
  if (now.session.windows == reported_.windows) return;
  host_.windows_done(reported_, now);
  reported_ = now.session;
}

/// A flush, a state change and a refusing downstream also end in an exception; only what remains is
/// a fault.
void Worker::fail(const Error& error) {
  const bool by_downstream = std::exchange(downstream_stopped_, false);
  if (is_outdated()) return;  // step() resets the session
  if (!by_downstream) {
    // First, so that an application hears of the fault before upstream's error or an EOS that waits
    // for this end.
    host_.failed(error);
    Lock lock(mutex_);
    if (outdated()) return;
    stop_stream(lock, GST_FLOW_ERROR, true);
  }
  if (session_) session_->reset();
}

/// Who waits for the stream's end, or flushes, goes on after the events that are left have been
/// stored: an old clip's tag must not come to lie over the next one's.
void Worker::stop_stream(Lock& held, GstFlowReturn flow, bool reported) {
  flow_ = flow;
  fault_reported_ = reported;
  const std::uint64_t over = drains_asked_;
  std::deque<EventPtr> events = take_events(held);
  pushing_ = std::this_thread::get_id();
  held.unlock();
  store(std::move(events));
  held.lock();
  pushing_ = kNobody;
  drains_done_ = std::max(drains_done_, over);
  calm_.notify_all();
}

}  // namespace normalcrafter
