// The networks as a session sees them: four stages between tensors.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>

#include "nn/checkpoint.h"
#include "normalcrafter/options.h"
#include "normalcrafter/session.h"

namespace normalcrafter {

/// Implemented by the loaded model and, in the tests, by small arithmetic stand-ins.
class Stages {
 public:
  virtual ~Stages() = default;

  /// Where the networks compute. Frames may be given to them there already.
  virtual at::Device device() const { return at::kCPU; }

  /// Frames are padded to multiples of this many pixels: 64 for every real model.
  virtual int padding_multiple() const = 0;

  /// Loads what is not loaded. `progress` gets bytes done and in all; may be empty.
  virtual void load(const Checkpoint& checkpoint,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress) = 0;

  /// Tells the model that a session uses it in this mode, until the returned handle is destroyed.
  /// Where users differ, the mode that keeps most counts: Resident, Staged, Streamed. While any
  /// user asks for Resident, nothing is offloaded.
  virtual std::shared_ptr<void> join(OffloadMode mode) = 0;

  /// The exclusive use of the stage's network: waits for the model's lock (throwing Cancelled) and
  /// brings the network to the device. When no user is Resident, it is offloaded as the scope is
  /// destroyed (CPU) or as the next stage begins (other devices). The scope's end unlocks, on every
  /// path out, errors included.
  virtual std::shared_ptr<void> enter(Stage stage, const Checkpoint& checkpoint) = 0;

  /// What is where in the stage that was entered last, for the debug log; "" where it is not
  /// planned.
  virtual std::string plan() const { return ""; }

  /// Gives all networks' memory back unless a user is Resident.
  virtual void offload() noexcept = 0;

  // The four networks. Call between enter() of that stage and the scope's end. All run in inference
  // mode, on the model's device, and check() between blocks.

  /// frames [n,3,H,W] float32 in [0,1], padded -> embeddings [n,1,D].
  virtual at::Tensor embed(const at::Tensor& frames, ClipResize resize,
                           const Checkpoint& checkpoint) = 0;
  /// frames [n,3,H,W] float32 in [0,1], padded -> latents [n,c,H/f,W/f], the distribution's mode.
  virtual at::Tensor encode(const at::Tensor& frames, const Checkpoint& checkpoint) = 0;
  /// One window's Euler step. normals [t,c,h,w]: the seed, zero where there is none; latents
  /// [t,c,h,w]; embeddings [t,1,D] -> predicted normal latents [t,c,h,w].
  virtual at::Tensor predict(const at::Tensor& normals, const at::Tensor& latents,
                             const at::Tensor& embeddings, const Checkpoint& checkpoint) = 0;
  /// Normal latents of one decode chunk [n,c,h,w] -> vectors [n,3,H,W], about [-1,1], float32 or
  /// the model's dtype.
  virtual at::Tensor decode(const at::Tensor& latents, const Checkpoint& checkpoint) = 0;
};

}  // namespace normalcrafter
