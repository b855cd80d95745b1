// A session over any implementation of the four stages.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nn/checkpoint.h"
#include "normalcrafter/session.h"
#include "stream/decode_ledger.h"
#include "stream/finite_checks.h"
#include "stream/frame_run.h"
#include "stream/frame_tensors.h"
#include "stream/geometry.h"
#include "stream/stages.h"
#include "stream/window_schedule.h"

namespace normalcrafter {

/// Runs a clip in rounds. A round takes up to `windows_per_pass` windows whose frames have all
/// arrived (or, at the clip's end, what is left) through CLIP, VAE encoder, UNet and VAE decoder,
/// so that each network comes to the device once a round, and then delivers the frames it settled.
///
/// Held at most, however long the clip: window + windows_per_pass * step pictures, embeddings and
/// latents, one decode chunk more of predictions, and while it delivers the frames of one round.
class StreamSession final : public Session {
 public:
  /// Throws Error Settings for options that cannot work, naming option and value.
  StreamSession(std::shared_ptr<Stages> stages, const SessionOptions& options,
                SessionCallbacks callbacks);
  ~StreamSession() override;

  void prepare() override;
  void push(const FrameView& frame) override;
  void finish() override;
  void reset() noexcept override;
  void cancel() noexcept override;
  SessionStats stats() const override;
  void offload() noexcept override;

 private:
  /// A decoded chunk on its way out: pixels [n,height,width,3] of frames from `first` on.
  struct Delivery {
    std::int64_t first = 0;
    at::Tensor pixels;
  };
  /// All that a clip needs; gone when it ends.
  struct Clip {
    Clip(const FrameGeometry& geometry, SampleFormat format, const SessionOptions& options,
         const at::Device& device);
    FrameGeometry geometry;
    SampleFormat format;  ///< of the frames that arrive
    FrameReader reader;
    WindowSchedule schedule;
    DecodeLedger ledger;
    std::int64_t frames = 0;  ///< that have arrived
    FrameRun pictures;        ///< not yet encoded
    FrameRun embeddings;      ///< [1,D] a frame
    FrameRun latents;         ///< [c,h,w] a frame
    FrameRun normals;         ///< [c,h,w] a frame: predicted, crossfaded so far, not yet decoded
    std::vector<Delivery> deliveries;
  };
  using Network = std::function<at::Tensor(const at::Tensor&)>;

  template <typename Body>
  void run(Body&& body);
  template <typename Body>
  void in_stage(Stage stage, std::int64_t total, Body&& body);
  template <typename Call>
  void call_user(Call&& call);
  [[noreturn]] void fail();

  void load();
  void begin_clip(const FrameView& frame);
  void check_frame(const FrameView& frame) const;
  void run_round(const std::vector<Window>& windows, const std::vector<FrameRange>& chunks);
  void encode(Stage stage, const std::vector<Window>& windows, FrameRun& results,
              const Network& network);
  FrameRange pictured_frames(const Window& window) const;
  void repeat_last(Stage stage, std::int64_t count, FrameRun& results);
  FrameRange encode_batch(Stage stage, const Window& window, std::int64_t begin, FrameRun& results,
                          const Network& network);
  std::optional<at::Tensor> tried(Stage stage, FrameRange batch, const Network& network);
  at::Tensor pictures(FrameRange range) const;
  void predict(const std::vector<Window>& windows);
  void predict_window(const Window& window);
  void decode(const std::vector<FrameRange>& chunks);
  void deliver();

  void advance(Stage stage, std::int64_t frames);
  void log(LogLevel level, const std::string& text);
  void require_finite(const at::Tensor& values, Stage stage, const Window* window,
                      FrameRange frames);
  std::string describe(FrameRange frames) const;
  void count_live();
  void forget_clip() noexcept;
  void abandon_clip() noexcept;

  const std::shared_ptr<Stages> stages_;
  const SessionOptions options_;
  const SessionCallbacks callbacks_;
  const int threads_;
  /// Frames encoded together: the options', or after a lack of memory half, until reset().
  int clip_chunk_;
  int encode_chunk_;
  std::shared_ptr<void> membership_;  // what Stages::join() gave

  std::atomic<bool> cancelled_ = false;
  const Checkpoint checkpoint_{cancelled_};
  std::unique_ptr<Clip> clip_;
  FiniteChecks finite_;
  std::string plan_;  // logged last
  bool loaded_ = false;
  bool failed_ = false;         // until reset()
  bool in_callback_ = false;    // a user's exception is passed on as it is
  std::optional<Stage> stage_;  // what runs now, for error messages
  Progress progress_;           // of that stage

  mutable std::mutex stats_mutex_;  // guards stats_; never held across networks or callbacks
  SessionStats stats_;
};

std::unique_ptr<Session> make_stream_session(std::shared_ptr<Stages> stages,
                                             const SessionOptions& options,
                                             SessionCallbacks callbacks);

}  // namespace normalcrafter
