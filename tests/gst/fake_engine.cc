// An engine with the real one's window schedule and delays, and arithmetic instead of networks: a
// frame's output depends on its pixels, its number in the clip and the last window that saw it.
// tests/gst/offline.h computes the same without a schedule's state.
#include "fake_engine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "normalcrafter/engine.h"

namespace normalcrafter {
namespace {

FakeControls controls;

class Inside {
 public:
  explicit Inside(std::atomic<int>& counter) : counter_(counter) { ++counter_; }
  ~Inside() { --counter_; }

 private:
  std::atomic<int>& counter_;
};

class FakeModel final : public Model {
 public:
  explicit FakeModel(ModelInfo info) : info_(std::move(info)) { ++controls.models; }
  ~FakeModel() override { --controls.models; }
  const ModelInfo& info() const override { return info_; }
  std::uint64_t peak_bytes() const override { return 1234567; }
  DeviceStats device_stats() const override {
    DeviceStats stats;
    stats.memory = {1000, 3000, 2000};
    stats.upload_bytes[static_cast<int>(Stage::Unet)] = 4000;
    stats.upload_seconds[static_cast<int>(Stage::Unet)] = 0.5;
    return stats;
  }
  std::atomic<bool> loaded{false};
  std::mutex network;  ///< one session at a time, as in the real engine

 private:
  ModelInfo info_;
};

/// A picture as 16-bit samples, whatever it came as.
struct Picture {
  Size size;
  std::vector<std::uint16_t> samples;
};

std::uint16_t widen(int byte) {
  return static_cast<std::uint16_t>((byte & 255) * 257);
}

Picture read(const FrameView& frame) {
  Picture picture{frame.size, {}};
  for (int y = 0; y < frame.size.height; ++y) {
    const auto* row = static_cast<const std::uint8_t*>(frame.data) + y * frame.row_stride;
    for (int x = 0; x < frame.size.width * 3; ++x) {
      picture.samples.push_back(frame.format == SampleFormat::U8
                                    ? static_cast<std::uint16_t>(row[x] * 257)
                                    : reinterpret_cast<const std::uint16_t*>(row)[x]);
    }
  }
  return picture;
}

class FakeSession final : public Session {
 public:
  FakeSession(std::shared_ptr<FakeModel> model, const SessionOptions& options,
              SessionCallbacks callbacks)
      : model_(std::move(model)), options_(options), callbacks_(std::move(callbacks)) {
    ++controls.sessions;
    ++controls.sessions_made;
    stats_.threads = options_.threads > 0 ? options_.threads : 3;
  }
  ~FakeSession() override { --controls.sessions; }

  void prepare() override {
    check();
    if (model_->loaded) return;
    const Inside inside(controls.loading);
    const auto start = std::chrono::steady_clock::now();
    constexpr int kSteps = 20;
    for (int step = 1; step <= kSteps; ++step) {
      sleep(controls.load_ms / kSteps);
      while (controls.block_loading) sleep(1);
      if (callbacks_.progress) callbacks_.progress({Stage::Load, 100ULL * step, 100ULL * kSteps});
      if (step == kSteps / 2 && controls.load_fault >= 0) {
        throw Error(static_cast<ErrorCode>(controls.load_fault.load()), "loading failed on demand");
      }
    }
    model_->loaded = true;
    ++controls.loads;
    add_seconds(Stage::Load, start);
  }

  void push(const FrameView& frame) override {
    check();
    prepare();
    if (!frames_.empty() && frames_.back().size != frame.size) {
      throw Error(ErrorCode::Settings, "a frame of another size in a clip: finish() it first");
    }
    frames_.push_back(read(frame));
    last_start_.push_back(0);
    {
      const std::lock_guard lock(mutex_);
      ++stats_.frames_in;
      stats_.live.frames = static_cast<int>(frames_.size() - delivered_);
      stats_.peak.frames = std::max(stats_.peak.frames, stats_.live.frames);
    }
    const int last_of_round = (windows_run_ / options_.windows_per_pass + 1) *
                                  options_.windows_per_pass * options_.step_size -
                              options_.step_size;
    if (count() < last_of_round + options_.window_size) return;
    for (int i = 0; i < options_.windows_per_pass; ++i)
      run_window(windows_run_ * options_.step_size);
  }

  void finish() override {
    check();
    if (frames_.empty()) return;
    while (windows_run_ * options_.step_size + options_.window_size <= count()) {
      run_window(windows_run_ * options_.step_size);
    }
    if (covered_ < count()) {
      run_window(options_.tail_mode == TailMode::Repeat
                     ? windows_run_ * options_.step_size
                     : std::max(0, count() - options_.window_size));
    }
    deliver_until(count());
    ++controls.clips;
    if (options_.offload_after) offload();
    forget();
  }

  void reset() noexcept override {
    forget();
    cancelled_ = false;
  }

  void cancel() noexcept override {
    ++controls.cancels;
    cancelled_ = true;
  }

  SessionStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void offload() noexcept override {
    if (model_->loaded.exchange(false)) ++controls.offloads;
  }

 private:
  int count() const { return static_cast<int>(frames_.size()); }

  void check() const {
    if (cancelled_) throw Error(ErrorCode::Cancelled, "cancelled");
  }

  void sleep(int milliseconds) const {
    // Until a point in time: on a busy machine each of many short sleeps would be too long.
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    const std::chrono::milliseconds block(std::max(1, controls.block_ms.load()));
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
      check();
      std::this_thread::sleep_until(
          block.count() > 1 ? now + block : std::min(end, Clock::time_point(now + block)));
    }
    check();
  }

  void add_seconds(Stage stage, std::chrono::steady_clock::time_point start) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const std::lock_guard lock(mutex_);
    stats_.stage_seconds[static_cast<int>(stage)] += seconds.count();
  }

  void tell(Stage stage, int done) const {
    const auto total = static_cast<std::uint64_t>(options_.window_size);
    if (callbacks_.progress) callbacks_.progress({stage, static_cast<std::uint64_t>(done), total});
  }

  /// Waits as long as another session of the model is in a window.
  std::unique_lock<std::mutex> take_model() const {
    std::unique_lock lock(model_->network, std::try_to_lock);
    if (lock) return lock;
    const Inside inside(controls.waiting);
    while (!lock.try_lock()) {
      check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return lock;
  }

  void run_window(int start) {
    evaluate_window(start);
    const int final =
        options_.tail_mode == TailMode::Repeat ? start + options_.step_size : start + 1;
    const int chunk = options_.vae_decode_chunk_size;
    deliver_until(std::min(final, count()) / chunk * chunk);
  }

  /// Frames are delivered without the model: a sink that waits for another sink would never get its
  /// frame otherwise.
  void evaluate_window(int start) {
    const std::unique_lock lock = take_model();
    const Inside inside(controls.in_window);
    const auto began = std::chrono::steady_clock::now();
    tell(Stage::Unet, 0);
    int milliseconds = controls.window_ms;
    if (controls.jitter_ms > 0) milliseconds += static_cast<int>(random_() % controls.jitter_ms);
    sleep(milliseconds);
    while (controls.block_windows) sleep(1);
    const int end = std::min(count(), start + options_.window_size);
    if (controls.fault_frame >= start && controls.fault_frame < end) {
      throw Error(static_cast<ErrorCode>(controls.fault_code.load()), "window failed on demand");
    }
    for (int i = start; i < end; ++i) last_start_[i] = start;
    covered_ = end;
    ++windows_run_;
    ++controls.windows;
    for (int done = 1; done <= options_.window_size; ++done) tell(Stage::Unet, done);
    add_seconds(Stage::Unet, began);
    const std::lock_guard counting(mutex_);
    ++stats_.windows;
  }

  void deliver_until(int end) {
    while (delivered_ < end) deliver(delivered_++);
  }

  void deliver(int index) {
    const Picture& in = frames_[index];
    const Size size = options_.output_size == OutputSize::Original
                          ? in.size
                          : processed_size(in.size, options_.max_resolution);
    std::vector<std::uint16_t> wide;
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        const auto* pixel =
            &in.samples[3 * (static_cast<std::size_t>(y * in.size.height / size.height) *
                                 in.size.width +
                             x * in.size.width / size.width)];
        // On 8 bits, so that it wraps alike at both depths.
        const auto byte = [pixel](int c) { return pixel[c] >> 8; };
        wide.push_back(widen(options_.flip_x ? byte(0) : 255 - byte(0)));
        const auto flipped = [](bool flip, int value) { return flip ? 255 - value : value; };
        wide.push_back(widen(flipped(options_.flip_y, byte(1) + 7 * index)));
        wide.push_back(widen(flipped(options_.flip_z, byte(2) + last_start_[index])));
      }
    }
    NormalView view{static_cast<std::uint64_t>(index), size, wide.data(), size.width * 6,
                    SampleFormat::U16};
    std::vector<std::uint8_t> narrow;
    if (options_.output_format == SampleFormat::U8) {
      for (const std::uint16_t sample : wide)
        narrow.push_back(static_cast<std::uint8_t>(sample >> 8));
      view.data = narrow.data();
      view.row_stride = size.width * 3;
      view.format = SampleFormat::U8;
    }
    std::vector<float> vectors;
    if (options_.output_format == SampleFormat::F32) {
      for (const std::uint16_t sample : wide)
        vectors.push_back(static_cast<float>(sample) / 65535.0F * 2.0F - 1.0F);
      view.data = vectors.data();
      view.row_stride = size.width * 12;
      view.format = SampleFormat::F32;
    }
    check();
    {
      const std::lock_guard lock(mutex_);
      ++stats_.frames_out;
    }
    callbacks_.frame(view);
  }

  void forget() noexcept {
    frames_.clear();
    last_start_.clear();
    delivered_ = windows_run_ = covered_ = 0;
  }

  const std::shared_ptr<FakeModel> model_;
  const SessionOptions options_;
  const SessionCallbacks callbacks_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  SessionStats stats_;
  std::minstd_rand random_{1};

  std::vector<Picture> frames_;
  std::vector<int> last_start_;  ///< of the last window that saw the frame
  int delivered_ = 0;
  int windows_run_ = 0;
  int covered_ = 0;  ///< frames that a window has seen
};

class FakeEngine final : public Engine {
 public:
  const char* version() const override { return "fake"; }

  std::shared_ptr<Model> open_model(const ModelOptions& options, const LogFunction& log) override {
    check_directory(options.directory);
    if (options.device == "cuda:9") {
      throw Error(ErrorCode::DeviceUnavailable, "device cuda:9: there are 0 CUDA devices");
    }
    const std::lock_guard lock(mutex_);
    auto& known =
        models_[{options.directory, options.base_directory, options.device, options.dtype}];
    if (auto model = known.lock()) return model;
    auto model = std::make_shared<FakeModel>(
        ModelInfo{options.directory, options.device == "cuda:0" ? "cuda:0" : "cpu",
                  options.device == "cuda:0" ? "Fake GPU" : "CPU",
                  options.dtype == Dtype::Auto ? Dtype::Float32 : options.dtype,
                  stated_axes(options.directory)});
    known = model;
    log(LogLevel::Info, "fake model opened");
    return model;
  }

  std::unique_ptr<Session> create_session(std::shared_ptr<Model> model,
                                          const SessionOptions& options,
                                          SessionCallbacks callbacks) override {
    if (options.step_size > options.window_size) {
      throw Error(ErrorCode::Settings, "step-size " + std::to_string(options.step_size) +
                                           " is greater than window-size " +
                                           std::to_string(options.window_size));
    }
    const Inside inside(controls.creating);
    while (controls.block_creation) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (controls.create_fault >= 0) {
      throw Error(static_cast<ErrorCode>(controls.create_fault.load()), "no session on demand");
    }
    return std::make_unique<FakeSession>(std::static_pointer_cast<FakeModel>(std::move(model)),
                                         options, std::move(callbacks));
  }

 private:
  /// The file "axes" stands for normalcrafter.json.
  static std::string stated_axes(const std::string& directory) {
    std::string axes;
    std::ifstream(std::filesystem::path(directory) / "axes") >> axes;
    return axes;
  }

  /// A good model's directory holds a file "weights" that says "good".
  static void check_directory(const std::string& directory) {
    const std::filesystem::path file = std::filesystem::path(directory) / "weights";
    if (!std::filesystem::exists(file)) {
      throw Error(ErrorCode::NotFound, file.string() + ": no such file");
    }
    std::string content;
    std::ifstream(file) >> content;
    if (content.empty()) throw Error(ErrorCode::OpenRead, file.string() + ": truncated");
    if (content != "good") throw Error(ErrorCode::InvalidModel, file.string() + ": corrupted");
  }

  using Key = std::tuple<std::string, std::string, std::string, Dtype>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<FakeModel>> models_;
};

}  // namespace
}  // namespace normalcrafter

normalcrafter::FakeControls* fake_engine_controls() {
  return &normalcrafter::controls;
}

normalcrafter::Engine* normalcrafter_engine(unsigned abi) {
  static normalcrafter::FakeEngine engine;
  return abi == normalcrafter::kEngineAbi ? &engine : nullptr;
}
