// One stream of frames through a model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "normalcrafter/frame.h"
#include "normalcrafter/options.h"

namespace normalcrafter {

enum class Stage { Load, Clip, Encode, Unet, Decode };
inline constexpr int kStageCount = 5;
/// "load", "clip", "encode", "unet", "decode".
const char* stage_name(Stage stage);

/// How far a stage of the present round is. For Load `done` and `total` are bytes, else frames.
struct Progress {
  Stage stage = Stage::Load;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
};

struct SessionCallbacks {
  /// Each frame once, in order, on the thread that called push() or finish(), no lock held. If it
  /// throws, the exception leaves push()/finish() and the session must be reset().
  std::function<void(const NormalView&)> frame;
  std::function<void(const Progress&)> progress;  ///< may be empty
  LogFunction log;                                ///< may be empty
};

/// Counted, not guessed: what a session holds now and held at most. Frames.
struct LiveCounts {
  int frames = 0;      ///< pictures waiting for the encoders
  int embeddings = 0;  ///< CLIP embeddings
  int latents = 0;     ///< RGB latents
  int normals = 0;     ///< predicted latents not yet decoded, the last window's included
};

struct SessionStats {
  std::uint64_t frames_in = 0;
  std::uint64_t frames_out = 0;
  std::uint64_t windows = 0;
  int threads = 0;                         ///< that a network computes with on the CPU
  double stage_seconds[kStageCount] = {};  ///< indexed by Stage
  LiveCounts live;
  LiveCounts peak;
};

/// Not thread-safe but for cancel() and stats(). Starts no thread.
class Session {
 public:
  virtual ~Session() = default;

  /// Loads the model's weights unless they are there. push() does it too; calling it first shows
  /// load errors before frames arrive.
  virtual void prepare() = 0;
  /// Takes the next frame (copies it) and runs the networks when a round is complete. The first
  /// frame of a clip sets the clip's size. Throws Error.
  virtual void push(const FrameView& frame) = 0;
  /// Ends the clip: every frame pushed has been delivered when it returns. The next push() begins a
  /// new clip, of any size. Without frames it does nothing.
  virtual void finish() = 0;
  /// Forgets the clip and a cancel().
  virtual void reset() noexcept = 0;
  /// From any thread: the present or next push()/finish()/prepare() throws Error Cancelled within
  /// one network block, until reset().
  virtual void cancel() noexcept = 0;
  virtual SessionStats stats() const = 0;
  /// Gives the networks' memory back unless another session of the model keeps it resident.
  virtual void offload() noexcept = 0;
};

}  // namespace normalcrafter
