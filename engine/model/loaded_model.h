// A model directory as the four stages of a session.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/device.h"
#include "model/model_lock.h"
#include "model/weights.h"
#include "networks/clip_vision_encoder.h"
#include "networks/temporal_vae.h"
#include "networks/unet_spatio_temporal.h"
#include "normalcrafter/model.h"
#include "stream/stages.h"

namespace normalcrafter {

/// Owns each network at most once. A network exists while it is resident; its parameters are built
/// from the files (checked when the model is opened, kept open) each time it is brought back. One
/// re-entrant lock guards the networks.
class LoadedModel final : public Model, public Stages {
 public:
  /// Reads configurations and headers and checks every tensor's name and shape; no weights. Logs
  /// one warning a component for superfluous tensors. Throws Error.
  LoadedModel(const ModelOptions& options, at::Device device, at::ScalarType dtype,
              const LogFunction& log);
  ~LoadedModel() override;

  const ModelInfo& info() const override { return info_; }
  std::uint64_t peak_bytes() const override { return normalcrafter::peak_bytes(device_); }
  const ModelConfig& config() const { return config_; }
  /// The networks whose parameters are in memory now. Not while another thread is in a stage.
  std::vector<Stage> resident_networks() const;

  int padding_multiple() const override { return 64; }
  void load(const Checkpoint& checkpoint,
            const std::function<void(std::uint64_t, std::uint64_t)>& progress) override;
  std::shared_ptr<void> join(OffloadMode mode) override;
  std::shared_ptr<void> enter(Stage stage, const Checkpoint& checkpoint) override;
  void offload() noexcept override;

  at::Tensor embed(const at::Tensor& frames, ClipResize resize,
                   const Checkpoint& checkpoint) override;
  at::Tensor encode(const at::Tensor& frames, const Checkpoint& checkpoint) override;
  at::Tensor predict(const at::Tensor& normals, const at::Tensor& latents,
                     const at::Tensor& embeddings, const Checkpoint& checkpoint) override;
  at::Tensor decode(const at::Tensor& latents, const Checkpoint& checkpoint) override;

 private:
  void check_tensors(const LogFunction& log) const;
  bool resident(Stage stage) const;
  void build(Stage stage, const Checkpoint& checkpoint, const LoadProgress& progress);
  void drop(Stage stage) noexcept;
  void drop_all_but(Stage stage) noexcept;
  void drop_all() noexcept;          // and gives the device's memory back
  void leave(Stage stage) noexcept;  // the end of an enter() scope
  bool staged() const noexcept { return resident_users_.load() == 0; }

  ModelInfo info_;
  ModelConfig config_;
  std::shared_ptr<const ComponentTensors> clip_tensors_;
  std::shared_ptr<const ComponentTensors> vae_tensors_;
  std::shared_ptr<const ComponentTensors> unet_tensors_;
  at::Device device_;
  at::ScalarType dtype_;
  at::ScalarType vae_dtype_;

  ModelLock lock_;
  std::unique_ptr<const ClipVisionEncoder> clip_;
  std::unique_ptr<const VaeEncoder> encoder_;
  std::unique_ptr<const UNetSpatioTemporal> unet_;
  std::unique_ptr<const VaeDecoder> decoder_;
  std::atomic<int> resident_users_ = 0;
  std::atomic<bool> offload_wanted_ = false;  // asked for while another session held the lock
};

/// The process's model for these options: the living one when directory, base, device and dtype are
/// the same, else a new one. Throws Error.
std::shared_ptr<LoadedModel> open_shared_model(const ModelOptions& options, const LogFunction& log);

}  // namespace normalcrafter
