#include "stream/stream_session.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "normalcrafter/error.h"
#include "stream/faults.h"
#include "stream/physical_cores.h"

namespace normalcrafter {
namespace {

[[noreturn]] void settings_error(const std::string& message) {
  throw Error(ErrorCode::Settings, message);
}

/// `name` as users know the option: the element's property.
void require_range(const char* name, int value, int least, int most = 0) {
  if (value >= least && (most == 0 || value <= most)) return;
  settings_error(std::string(name) + " is " + std::to_string(value) + "; it must be " +
                 (most == 0 ? "at least " + std::to_string(least)
                            : std::to_string(least) + " to " + std::to_string(most)));
}

SessionOptions checked(const SessionOptions& options) {
  require_range("window-size", options.window_size, 1);
  require_range("step-size", options.step_size, 1, options.window_size);
  require_range("clip-chunk-size", options.clip_chunk_size, 1);
  require_range("vae-encode-chunk-size", options.vae_encode_chunk_size, 1);
  require_range("vae-decode-chunk-size", options.vae_decode_chunk_size, 1);
  require_range("max-resolution", options.max_resolution, 1);
  require_range("windows-per-pass", options.windows_per_pass, 1);
  require_range("threads", options.threads, 0);
  return options;
}

std::string to_string(Size size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

std::int64_t fresh_frames(const std::vector<Window>& windows) {
  return windows.back().frames.end - windows.front().fresh;
}

// LibTorch keeps the number for each calling thread; asking is cheap, setting is not.
void use_threads(int threads) {
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

}  // namespace

StreamSession::Clip::Clip(const FrameGeometry& geometry, SampleFormat format,
                          const SessionOptions& options, const at::Device& device)
    : geometry(geometry),
      format(format),
      reader(geometry, device),
      schedule(options.window_size, options.step_size, options.tail_mode),
      ledger(options.vae_decode_chunk_size) {}

StreamSession::StreamSession(std::shared_ptr<Stages> stages, const SessionOptions& options,
                             SessionCallbacks callbacks)
    : stages_(std::move(stages)),
      options_(checked(options)),
      callbacks_(std::move(callbacks)),
      threads_(options.threads > 0 ? options.threads : physical_cores()),
      clip_chunk_(options.clip_chunk_size),
      encode_chunk_(options.vae_encode_chunk_size),
      membership_(stages_->join(options.offload_mode)),
      finite_(!stages_->device().is_cpu()) {
  if (!callbacks_.frame) settings_error("the frame callback is empty");
  stats_.threads = threads_;
}

StreamSession::~StreamSession() {
  membership_.reset();
  if (options_.offload_after) stages_->offload();
}

// The boundary: what leaves it is an Error or the user's own exception, and nothing stays behind.
template <typename Body>
void StreamSession::run(Body&& body) {
  checkpoint_.check();
  if (failed_) settings_error("the session has failed: call reset() before using it again");
  try {
    use_threads(threads_);
    const c10::InferenceMode inference;
    body();
  } catch (...) {
    fail();
  }
}

void StreamSession::fail() {
  failed_ = true;
  if (!stages_->device().is_cpu() && is_device_fault(std::current_exception()))
    abandon_clip();
  else
    forget_clip();
  const std::optional<Stage> stage = std::exchange(stage_, std::nullopt);
  // A seek cancels, or a callback throws where downstream flushes: neither is the networks' fault,
  // and must not cost a resident model its place.
  if (options_.offload_after || !(checkpoint_.cancelled() || in_callback_)) offload();
  if (std::exchange(in_callback_, false)) throw;
  rethrow_as_error(stage);
}

template <typename Call>
void StreamSession::call_user(Call&& call) {
  in_callback_ = true;
  {
    const c10::InferenceMode users_own(false);
    call();
  }
  in_callback_ = false;
}

// One network's turn in a round, timed, holding its scope.
template <typename Body>
void StreamSession::in_stage(Stage stage, std::int64_t total, Body&& body) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  stage_ = stage;
  progress_ = {stage, 0, static_cast<std::uint64_t>(total)};
  {
    const std::shared_ptr<void> scope = stages_->enter(stage, checkpoint_);
    if (std::string plan = stages_->plan(); plan != plan_) {
      plan_ = std::move(plan);
      log(LogLevel::Debug, plan_);
    }
    advance(stage, 0);
    body();
  }
  stage_.reset();
  const std::chrono::duration<double> seconds = Clock::now() - start;
  const std::lock_guard lock(stats_mutex_);
  stats_.stage_seconds[static_cast<int>(stage)] += seconds.count();
}

void StreamSession::advance(Stage stage, std::int64_t frames) {
  progress_.done += static_cast<std::uint64_t>(frames);
  if (callbacks_.progress) call_user([&] { callbacks_.progress(progress_); });
}

void StreamSession::log(LogLevel level, const std::string& text) {
  if (callbacks_.log) call_user([&] { callbacks_.log(level, text); });
}

void StreamSession::prepare() {
  run([&] { load(); });
}

void StreamSession::load() {
  if (loaded_) return;
  const auto start = std::chrono::steady_clock::now();
  stage_ = Stage::Load;
  stages_->load(checkpoint_, [&](std::uint64_t done, std::uint64_t total) {
    if (callbacks_.progress) call_user([&] { callbacks_.progress({Stage::Load, done, total}); });
  });
  stage_.reset();
  loaded_ = true;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::lock_guard lock(stats_mutex_);
  stats_.stage_seconds[static_cast<int>(Stage::Load)] += seconds.count();
}

void StreamSession::push(const FrameView& frame) {
  run([&] {
    check_frame(frame);
    load();
    if (!clip_) begin_clip(frame);
    clip_->pictures.push_back(clip_->reader.picture(frame));
    ++clip_->frames;
    count_live();
    {
      const std::lock_guard lock(stats_mutex_);
      ++stats_.frames_in;
    }
    const std::vector<Window> windows =
        clip_->schedule.take(clip_->frames, options_.windows_per_pass);
    if (!windows.empty()) run_round(windows, clip_->ledger.take(clip_->schedule.settled()));
  });
}

void StreamSession::finish() {
  run([&] {
    if (!clip_) return;
    const std::vector<Window> windows = clip_->schedule.finish(clip_->frames);
    run_round(windows, clip_->ledger.finish(clip_->frames));
    forget_clip();
    if (options_.offload_after) offload();
  });
}

void StreamSession::check_frame(const FrameView& frame) const {
  const Size size = frame.size;
  if (size.width < 1 || size.height < 1)
    settings_error("a frame of " + to_string(size) + " pixels: both sides must be at least 1");
  if (frame.format != SampleFormat::U8 && frame.format != SampleFormat::U16)
    settings_error("a frame's samples must be 8-bit or 16-bit integers");
  if (frame.data == nullptr) settings_error("a frame without data");
  const auto row = static_cast<std::ptrdiff_t>(3 * sample_size(frame.format)) * size.width;
  if (frame.row_stride < row)
    settings_error("a frame's row_stride is " + std::to_string(frame.row_stride) + "; a row of " +
                   std::to_string(size.width) + " pixels has " + std::to_string(row) + " bytes");
  if (clip_ && clip_->format != frame.format)
    settings_error("frames of 8-bit and of 16-bit samples in one clip: finish() the clip first");
  if (clip_ && clip_->geometry.input != size)
    settings_error("a frame of " + to_string(size) + " in a clip of " +
                   to_string(clip_->geometry.input) + " frames: finish() the clip first");
}

void StreamSession::begin_clip(const FrameView& frame) {
  const FrameGeometry geometry = frame_geometry(frame.size, options_.max_resolution,
                                                stages_->padding_multiple(), options_.output_size);
  clip_ = std::make_unique<Clip>(geometry, frame.format, options_, stages_->device());
  log(LogLevel::Debug, "clip of " + to_string(geometry.input) + " frames, processed at " +
                           to_string(geometry.processed) + ", padded to " +
                           to_string(geometry.padded) + ", " + std::to_string(threads_) +
                           " threads");
}

void StreamSession::run_round(const std::vector<Window>& windows,
                              const std::vector<FrameRange>& chunks) {
  if (!windows.empty()) {
    encode(Stage::Clip, windows, clip_->embeddings, [&](const at::Tensor& frames) {
      return stages_->embed(frames, options_.clip_resize, checkpoint_);
    });
    encode(Stage::Encode, windows, clip_->latents,
           [&](const at::Tensor& frames) { return stages_->encode(frames, checkpoint_); });
    clip_->pictures.drop_before(clip_->frames);
    predict(windows);
  }
  if (chunks.empty()) return;
  decode(chunks);
  deliver();
}

void StreamSession::encode(Stage stage, const std::vector<Window>& windows, FrameRun& results,
                           const Network& network) {
  in_stage(stage, fresh_frames(windows), [&] {
    for (const Window& window : windows) {
      const FrameRange pictured = pictured_frames(window);
      for (std::int64_t begin = pictured.begin; begin < pictured.end;)
        begin = encode_batch(stage, window, begin, results, network).end;
      repeat_last(stage, window.frames.end - pictured.end, results);
      finite_.settle();
    }
  });
}

FrameRange StreamSession::pictured_frames(const Window& window) const {
  const FrameRange fresh = window.fresh_frames();
  return {fresh.begin, std::min(fresh.end, clip_->frames)};
}

// Past the clip's end its last frame stands in: what was made of it serves for all of them.
void StreamSession::repeat_last(Stage stage, std::int64_t count, FrameRun& results) {
  if (count == 0) return;
  results.repeat_last(count);
  count_live();
  advance(stage, count);
}

// A batch of the window's pictured frames from `begin` on. Which frames share one changes rounding
// only, so where memory runs out half as many are tried: once.
FrameRange StreamSession::encode_batch(Stage stage, const Window& window, std::int64_t begin,
                                       FrameRun& results, const Network& network) {
  int& chunk = stage == Stage::Clip ? clip_chunk_ : encode_chunk_;
  const auto batch_now = [&] {
    return FrameRange{begin, std::min(begin + chunk, pictured_frames(window).end)};
  };
  checkpoint_.check();
  std::optional<at::Tensor> result = tried(stage, batch_now(), network);
  if (!result) {
    chunk = static_cast<int>(batch_now().size() / 2);
    const char* const property = stage == Stage::Clip ? "clip-chunk-size" : "vae-encode-chunk-size";
    log(LogLevel::Warning, std::string("out of memory in ") + stage_name(stage) + ": " + property +
                               " is " + std::to_string(chunk) +
                               " from here on, half of the frames that were too many");
    result = network(pictures(batch_now()));
  }
  const FrameRange batch = batch_now();
  require_finite(*result, stage, &window, batch);
  results.append(*result);
  count_live();
  advance(stage, batch.size());
  return batch;
}

// None when memory ran out and the chunk may be halved; what was made of it is freed by then.
std::optional<at::Tensor> StreamSession::tried(Stage stage, FrameRange batch,
                                               const Network& network) {
  const bool halved = stage == Stage::Clip ? clip_chunk_ < options_.clip_chunk_size
                                           : encode_chunk_ < options_.vae_encode_chunk_size;
  if (halved || batch.size() == 1) return network(pictures(batch));
  try {
    return network(pictures(batch));
  } catch (...) {
    if (!is_out_of_memory(std::current_exception())) throw;
  }
  return std::nullopt;
}

at::Tensor StreamSession::pictures(FrameRange range) const {
  std::vector<at::Tensor> frames;
  for (std::int64_t i = range.begin; i < range.end; ++i) frames.push_back(clip_->pictures[i]);
  return clip_->reader.batch(frames);
}

void StreamSession::predict(const std::vector<Window>& windows) {
  const std::int64_t frames = static_cast<std::int64_t>(windows.size()) * options_.window_size;
  in_stage(Stage::Unet, frames, [&] {
    for (const Window& window : windows) {
      checkpoint_.check();
      predict_window(window);
      finite_.settle();  // the window's end: the only place where a device is waited for
      advance(Stage::Unet, window.frames.size());
    }
  });
  clip_->embeddings.drop_before(clip_->schedule.settled());
  clip_->latents.drop_before(clip_->schedule.settled());
  count_live();
}

void StreamSession::predict_window(const Window& window) {
  const at::Tensor latents = clip_->latents.copy(window.frames);
  const std::int64_t overlap = window.overlap().size();
  at::Tensor seed = at::zeros_like(latents);
  at::Tensor earlier;
  if (overlap > 0) {
    earlier = clip_->normals.copy(window.overlap());
    seed.narrow(0, 0, overlap).copy_(earlier);
  }
  const at::Tensor predicted =
      stages_->predict(seed, latents, clip_->embeddings.copy(window.frames), checkpoint_);
  require_finite(predicted, Stage::Unet, &window, window.frames);
  if (overlap > 0)
    clip_->normals.overwrite(window.frames.begin,
                             crossfade(earlier, predicted.narrow(0, 0, overlap)));
  clip_->normals.append(predicted.narrow(0, overlap, window.fresh_frames().size()));
  count_live();
  const std::lock_guard lock(stats_mutex_);
  ++stats_.windows;
}

void StreamSession::decode(const std::vector<FrameRange>& chunks) {
  in_stage(Stage::Decode, chunks.back().end - chunks.front().begin, [&] {
    for (const FrameRange& chunk : chunks) {
      checkpoint_.check();
      const at::Tensor vectors = stages_->decode(clip_->normals.copy(chunk), checkpoint_);
      require_finite(vectors, Stage::Decode, nullptr, chunk);
      clip_->deliveries.push_back(
          {chunk.begin, finish_normals(vectors, clip_->geometry, options_)});
      clip_->normals.drop_before(chunk.end);
      count_live();
      advance(Stage::Decode, chunk.size());
    }
    finite_.settle();  // and the pixels are on the host
  });
}

void StreamSession::deliver() {
  NormalView view;
  view.size = clip_->geometry.output;
  view.format = options_.output_format;
  view.row_stride = static_cast<std::ptrdiff_t>(3 * sample_size(view.format)) * view.size.width;
  for (Delivery& delivery : clip_->deliveries) {
    const at::Tensor pixels = std::move(delivery.pixels);  // freed when its frames are out
    for (std::int64_t i = 0; i < pixels.size(0); ++i) {
      checkpoint_.check();
      view.index = static_cast<std::uint64_t>(delivery.first + i);
      view.data = static_cast<const std::byte*>(pixels.const_data_ptr()) +
                  i * view.row_stride * view.size.height;
      call_user([&] { callbacks_.frame(view); });
      const std::lock_guard lock(stats_mutex_);
      ++stats_.frames_out;
    }
  }
  clip_->deliveries.clear();
}

void StreamSession::require_finite(const at::Tensor& values, Stage stage, const Window* window,
                                   FrameRange frames) {
  const std::string where = window == nullptr ? describe(frames)
                                              : "window " + std::to_string(window->number) + " (" +
                                                    describe(frames) + ")";
  finite_.add(values, std::string(stage_name(stage)) + " produced non-finite values in " + where);
}

std::string StreamSession::describe(FrameRange frames) const {
  const std::int64_t last = std::min(frames.end, clip_->frames) - 1;
  const std::int64_t first = std::min(frames.begin, last);
  if (first == last) return "frame " + std::to_string(last);
  return "frames " + std::to_string(first) + "-" + std::to_string(last);
}

void StreamSession::count_live() {
  LiveCounts live;
  if (clip_) {
    live.frames = static_cast<int>(clip_->pictures.size());
    live.embeddings = static_cast<int>(clip_->embeddings.size());
    live.latents = static_cast<int>(clip_->latents.size());
    live.normals = static_cast<int>(clip_->normals.size());
  }
  const std::lock_guard lock(stats_mutex_);
  LiveCounts& peak = stats_.peak;
  stats_.live = live;
  peak.frames = std::max(peak.frames, live.frames);
  peak.embeddings = std::max(peak.embeddings, live.embeddings);
  peak.latents = std::max(peak.latents, live.latents);
  peak.normals = std::max(peak.normals, live.normals);
}

void StreamSession::forget_clip() noexcept {
  clip_.reset();
  finite_.forget();
  count_live();
}

// Page-locked memory asks the device that it was copied to or from before it is freed. One that has
// failed answers with an exception, and that in a destructor, which would end the program: the
// memory is lost instead.
void StreamSession::abandon_clip() noexcept {
  static_cast<void>(clip_.release());
  forget_clip();
}

void StreamSession::reset() noexcept {
  forget_clip();
  clip_chunk_ = options_.clip_chunk_size;
  encode_chunk_ = options_.vae_encode_chunk_size;
  failed_ = false;
  cancelled_ = false;
}

void StreamSession::cancel() noexcept {
  cancelled_ = true;
}

SessionStats StreamSession::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

void StreamSession::offload() noexcept {
  // A resident user keeps everything on the device: step out, so that only the others count.
  membership_.reset();
  stages_->offload();
  membership_ = stages_->join(options_.offload_mode);
}

std::unique_ptr<Session> make_stream_session(std::shared_ptr<Stages> stages,
                                             const SessionOptions& options,
                                             SessionCallbacks callbacks) {
  return std::make_unique<StreamSession>(std::move(stages), options, std::move(callbacks));
}

}  // namespace normalcrafter
