// Which network is on the device when, decided before anything moves. Pure arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "normalcrafter/session.h"

namespace normalcrafter {

enum class Residency {
  Staged,    ///< the active network; the next one comes early where it fits
  Resident,  ///< all networks
  Streamed,  ///< as Staged, but the UNet's blocks take turns in two slots
};

/// A run of layers that are used together.
struct WeightBlock {
  std::string name;
  std::uint64_t bytes = 0;
};

struct NetworkNeeds {
  std::uint64_t weights = 0;      ///< bytes of the prepared parameters
  std::uint64_t working_set = 0;  ///< bytes at an earlier round's peak, without any weights
  bool measured = true;           ///< else it may be more, and nothing is copied meanwhile
};

/// The stages that have a network, in the order of a round. After the last one comes the first.
inline constexpr std::array<Stage, 4> kNetworkStages = {Stage::Clip, Stage::Encode, Stage::Unet,
                                                        Stage::Decode};

struct ResidencyRequest {
  Residency mode = Residency::Staged;
  std::uint64_t budget = 0;   ///< bytes of device memory that may be used
  std::uint64_t session = 0;  ///< bytes that stay on the device in all stages: latents, embeddings
  std::array<NetworkNeeds, kNetworkStages.size()> networks;  ///< one for each of kNetworkStages
  /// The UNet's parameters in the order of their use. For Streamed; one block when empty.
  std::vector<WeightBlock> unet_blocks;
};

/// One copy from the host. Copies run in the plan's order on a stream of their own.
struct Upload {
  Stage network = Stage::Clip;
  std::optional<int> block;  ///< index in the request's unet_blocks; none: the whole network
  std::optional<int> slot;   ///< where a block goes; none: memory of its own
  /// The block whose computing has to be finished first, since it has the slot.
  std::optional<int> after_block;
  friend bool operator==(const Upload&, const Upload&) = default;
};

struct StagePlan {
  Stage stage = Stage::Clip;
  /// Whole networks whose device memory is given back before the stage begins.
  std::vector<Stage> drop;
  /// What the stage cannot do without and nothing has brought before. A streamed UNet lists the
  /// walk of one window, which every further window repeats.
  std::vector<Upload> uploads;
  /// What is copied while the stage computes, since there is room: the next stage then need not
  /// wait. Useless where no further round follows, after the last stage.
  std::vector<Upload> prefetch;
  std::vector<Stage> on_device;  ///< whole networks while the stage computes, without the prefetch
  /// Bytes, with the prefetch. Without one it may be more than the budget: whether a round fits
  /// that is unlike the earlier ones, it alone can tell.
  std::uint64_t peak = 0;
};

/// A round that follows another one; in the first, what the last stage would have prefetched is
/// uploaded where it is needed.
struct ResidencyPlan {
  Residency mode = Residency::Staged;
  std::uint64_t budget = 0;
  /// Bytes of each slot. They exist from their first upload to the end of the UNet's stage.
  std::vector<std::uint64_t> slots;
  std::array<StagePlan, kNetworkStages.size()> stages;
  std::uint64_t peak() const;
};

/// Throws Error OutOfMemory when the budget is too small for the weights; the text names the stage,
/// what it needs and what helps.
ResidencyPlan plan_residency(const ResidencyRequest& request);

/// For the debug log: a headline and a line a stage, without a newline at the end.
std::string to_string(const ResidencyPlan& plan);

}  // namespace normalcrafter
