// A model directory as the four stages of a session.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/device.h"
#include "model/model_lock.h"
#include "model/residency.h"
#include "model/weights.h"
#include "networks/clip_vision_encoder.h"
#include "networks/temporal_vae.h"
#include "networks/unet_spatio_temporal.h"
#include "normalcrafter/model.h"
#include "stream/stages.h"

namespace normalcrafter {

/// Owns each network at most once. One re-entrant lock guards the networks.
///
/// On the CPU a network exists while it is resident; its parameters are built from the files
/// (checked when the model is opened, kept open) each time it is brought back. On another device
/// each is built once, block by block, into a host slab, from which a NetworkResidency brings the
/// parameters to the device and forgets them there.
class LoadedModel final : public Model, public Stages {
 public:
  /// Reads configurations and headers and checks every tensor's name and shape; no weights. Logs
  /// one warning a component for superfluous tensors. Throws Error.
  LoadedModel(const ModelOptions& options, at::Device device, at::ScalarType dtype,
              const LogFunction& log);
  /// The same with `transfers` between the host and `device`; none: built in place.
  LoadedModel(const ModelOptions& options, at::Device device, at::ScalarType dtype,
              const LogFunction& log, std::unique_ptr<TransferDevice> transfers);
  ~LoadedModel() override;

  const ModelInfo& info() const override { return info_; }
  std::uint64_t peak_bytes() const override;
  DeviceStats device_stats() const override;
  const ModelConfig& config() const { return config_; }
  /// False once weights have been replaced, deleted or written to.
  bool is_current() const noexcept {
    return clip_tensors_->is_current() && vae_tensors_->is_current() && unet_tensors_->is_current();
  }
  /// The networks whose parameters are in memory now. Not while another thread is in a stage.
  std::vector<Stage> resident_networks() const;

  at::Device device() const override { return device_; }
  int padding_multiple() const override { return 64; }
  void load(const Checkpoint& checkpoint,
            const std::function<void(std::uint64_t, std::uint64_t)>& progress) override;
  std::shared_ptr<void> join(OffloadMode mode) override;
  std::shared_ptr<void> enter(Stage stage, const Checkpoint& checkpoint) override;
  void offload() noexcept override;
  std::string plan() const override { return plan_; }

  at::Tensor embed(const at::Tensor& frames, ClipResize resize,
                   const Checkpoint& checkpoint) override;
  at::Tensor encode(const at::Tensor& frames, const Checkpoint& checkpoint) override;
  at::Tensor predict(const at::Tensor& normals, const at::Tensor& latents,
                     const at::Tensor& embeddings, const Checkpoint& checkpoint) override;
  at::Tensor decode(const at::Tensor& latents, const Checkpoint& checkpoint) override;

 private:
  void check_tensors(const LogFunction& log) const;
  bool resident(Stage stage) const;
  void build(Stage stage, const Checkpoint& checkpoint, const LoadProgress& progress,
             const BlockBuilt& built);
  void drop(Stage stage) noexcept;
  void drop_all_but(Stage stage) noexcept;
  void drop_all() noexcept;                       // and gives the device's memory back
  void leave(Stage stage, bool failed) noexcept;  // the end of an enter() scope
  Residency mode() const noexcept;                // what the users want together
  bool staged() const noexcept { return mode() != Residency::Resident; }

  // On a device other than the CPU.
  void make_home(Stage stage, const Checkpoint& checkpoint, const LoadProgress& progress);
  std::vector<ParameterBlock> blocks(Stage stage);
  void move_to_device(Stage stage, const Checkpoint& checkpoint);
  void measure(Stage stage) noexcept;
  ResidencyRequest request() const;
  template <typename Compute>
  at::Tensor with_room(Compute&& compute);

  ModelInfo info_;
  ModelConfig config_;
  std::shared_ptr<const ComponentTensors> clip_tensors_;
  std::shared_ptr<const ComponentTensors> vae_tensors_;
  std::shared_ptr<const ComponentTensors> unet_tensors_;
  at::Device device_;
  at::ScalarType dtype_;
  at::ScalarType vae_dtype_;

  ModelLock lock_;
  std::unique_ptr<ClipVisionEncoder> clip_;
  std::unique_ptr<VaeEncoder> encoder_;
  std::unique_ptr<UNetSpatioTemporal> unet_;
  std::unique_ptr<VaeDecoder> decoder_;
  std::unique_ptr<NetworkResidency> residency_;  // null: networks are built in place
  /// Bytes at each stage's peak so far, without parameters; by kNetworkStages.
  std::array<std::optional<std::uint64_t>, kNetworkStages.size()> working_sets_;
  bool was_short_ = false;  // of memory in this scope: its peak is no measure
  std::string plan_;
  bool allow_tf32_ = false;
  bool deterministic_ = true;
  std::array<std::atomic<int>, 3> users_ = {};  // by OffloadMode
  std::atomic<bool> offload_wanted_ = false;    // asked for while another session held the lock
};

/// The process's model for these options: the living one when directory, base, device, dtypes and
/// numerics are the same and its weights still lie there, else a new one. `log` is told what was
/// taken; what the files are warned about only the first opener's is. Throws Error.
std::shared_ptr<LoadedModel> open_shared_model(const ModelOptions& options, const LogFunction& log);

}  // namespace normalcrafter
