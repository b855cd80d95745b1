// Carries residency plans out: parameters on their way from the host to the device and away.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/host_slab.h"
#include "model/residency_plan.h"
#include "model/transfer_device.h"
#include "nn/parameters.h"

namespace normalcrafter {

/// Each network's parameters live in a host slab. They are copied to the device when a plan wants
/// them there, and forgotten there when it does not: nothing is copied back. Copies run beside the
/// computing and are ordered with it by events; only drop_all() waits for the device. For one
/// thread at a time, but for uploads().
class NetworkResidency final : public BlockWalk {
 public:
  explicit NetworkResidency(std::unique_ptr<TransferDevice> device);
  ~NetworkResidency() override;

  /// A network whose parameters all lie in `home`, those of a block side by side. From now on they
  /// are there only in the stages that the plans want them in. The places outlive this object.
  void add(Stage network, HostSlab home, const std::vector<ParameterBlock>& blocks);
  bool has(Stage network) const { return networks_[index(network)].has_value(); }
  /// For a plan: the parameters' bytes, and those of their blocks.
  std::uint64_t bytes(Stage network) const;
  std::vector<WeightBlock> blocks(Stage network) const;

  /// Begins a stage: drops what the plan does not have there, uploads what is missing, lets the
  /// computing wait for it, and prefetches. What is there already, by whatever way, is not copied
  /// again. All networks that the plan wants there have been added. Throws c10::OutOfMemoryError.
  void enter(const ResidencyPlan& plan, Stage stage);
  /// What a network that computes in the entered stage has to tell of its blocks; null where it is
  /// there as a whole.
  BlockWalk* walk() { return streams_ ? this : nullptr; }
  void enter_block(int block) override;
  void leave_block(int block) override;

  /// Frees what is only there for a stage to come. Whether there was something.
  bool drop_prefetched() noexcept;
  /// Frees the networks' device memory, also what LibTorch keeps of it. Workspaces of libraries
  /// stay.
  void drop_all() noexcept;

  /// Whole networks that are there or on their way.
  std::vector<Stage> on_device() const;
  /// Bytes of device memory held for parameters.
  std::uint64_t held() const;
  TransferDevice& device() const { return *device_; }

  struct Uploads {
    std::array<std::uint64_t, kStageCount> bytes = {};
    std::array<double, kStageCount> seconds = {};  ///< of finished copies
  };
  /// By the network's stage. From any thread.
  Uploads uploads() const;

 private:
  struct Parameter {
    at::Tensor* place;
    at::Tensor home;
  };
  struct Block {
    std::string name;
    std::uint64_t begin = 0;  ///< in the slab
    std::uint64_t end = 0;
    std::vector<Parameter> parameters;
  };
  struct Network {
    HostSlab home;
    std::vector<Block> blocks;
    at::Tensor memory;                  ///< undefined while it is not on the device
    TransferDevice::EventPtr uploaded;  ///< until the computing waits for it
  };
  struct Slot {
    at::Tensor memory;
    std::optional<int> block;
    TransferDevice::EventPtr uploaded;
    TransferDevice::EventPtr free;  ///< when the computing is done with the block, once it is left
  };
  /// An upload whose time is not known yet.
  struct Timing {
    Stage network;
    TransferDevice::EventPtr begin;
    TransferDevice::EventPtr end;
  };

  static std::size_t index(Stage network);
  Network& at(Stage network) { return *networks_[index(network)]; }

  void fetch(Stage network);
  void upload(Stage network);
  void use(Network& network);
  void drop(Network& network) noexcept;
  at::Tensor allocate(std::uint64_t bytes);
  TransferDevice::EventPtr copy(Stage network, const at::Tensor& to, std::uint64_t begin,
                                std::uint64_t end);

  void make_slots(const std::vector<std::uint64_t>& sizes);
  void drop_slots() noexcept;
  void upload_block(int block, int slot);
  void begin_walk();
  void prefetch(const std::vector<std::uint64_t>& slots, const std::vector<Upload>& uploads);
  static void put(const std::vector<Parameter>& parameters, const at::Tensor& memory,
                  std::uint64_t memory_begins, const HostSlab& home);
  static void take_away(const std::vector<Parameter>& parameters);
  void settle_timings() const;

  std::unique_ptr<TransferDevice> device_;
  std::array<std::optional<Network>, kNetworkStages.size()> networks_;
  std::vector<Slot> slots_;
  std::vector<Upload> walk_;  ///< the entered stage's uploads of blocks that wait for a slot
  Stage stage_ = Stage::Load;
  bool streams_ = false;

  mutable std::mutex timing_mutex_;
  mutable std::vector<Timing> timings_;
  mutable Uploads uploads_;
};

}  // namespace normalcrafter
