#include "model/residency_plan.h"

#include <algorithm>
#include <cstddef>

#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

constexpr std::size_t kStages = kNetworkStages.size();
constexpr std::size_t kUnet = 2;
static_assert(kNetworkStages[kUnet] == Stage::Unet);

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

const char* name(Residency mode) {
  switch (mode) {
    case Residency::Resident:
      return "resident";
    case Residency::Streamed:
      return "streamed";
    case Residency::Staged:
      break;
  }
  return "staged";
}

// Slots for blocks that take turns: while one is computed, the next is copied.
std::vector<std::uint64_t> slots_for(const std::vector<WeightBlock>& blocks) {
  std::uint64_t largest = 0;
  for (const WeightBlock& block : blocks) largest = std::max(largest, block.bytes);
  return std::vector<std::uint64_t>(std::min<std::size_t>(2, blocks.size()), largest);
}

class Planner {
 public:
  explicit Planner(const ResidencyRequest& request) : request_(request) {
    if (request.mode != Residency::Streamed) return;
    blocks_ = request.unet_blocks;
    if (blocks_.empty()) blocks_ = {{"unet", request.networks[kUnet].weights}};
    slots_ = slots_for(blocks_);
  }

  ResidencyPlan make() {
    ResidencyPlan plan{request_.mode, request_.budget, slots_, {}};
    for (std::size_t i = 0; i < kStages; ++i) {
      plan.stages[i].stage = kNetworkStages[i];
      if (request_.mode == Residency::Resident)
        keep_all(plan.stages[i], i);
      else
        keep_active(plan.stages[i], i);
    }
    if (request_.mode == Residency::Resident)
      plan.stages[0].uploads = resident_uploads();
    else
      add_prefetch(plan);
    return plan;
  }

 private:
  bool streamed(std::size_t i) const { return i == kUnet && request_.mode == Residency::Streamed; }

  // What the network's parameters take on the device while its stage computes.
  std::uint64_t active_weights(std::size_t i) const {
    if (!streamed(i)) return request_.networks[i].weights;
    std::uint64_t sum = 0;
    for (const std::uint64_t slot : slots_) sum += slot;
    return sum;
  }

  void keep_all(StagePlan& stage, std::size_t i) const {
    stage.on_device.assign(kNetworkStages.begin(), kNetworkStages.end());
    std::uint64_t weights = 0;
    for (const NetworkNeeds& network : request_.networks) weights += network.weights;
    stage.peak = weights + request_.networks[i].working_set + request_.session;
    require_room(i, weights, "staged");
  }

  void keep_active(StagePlan& stage, std::size_t i) const {
    const std::size_t before = (i + kStages - 1) % kStages;
    if (!streamed(before)) stage.drop = {kNetworkStages[before]};
    if (!streamed(i)) stage.on_device = {kNetworkStages[i]};
    stage.uploads = all_uploads(i);
    stage.peak = active_weights(i) + request_.networks[i].working_set + request_.session;
    require_room(i, active_weights(i), i == kUnet && !streamed(i) ? "streamed" : nullptr);
  }

  std::vector<Upload> all_uploads(std::size_t i) const {
    if (!streamed(i)) return {Upload{kNetworkStages[i], {}, {}, {}}};
    const int slots = static_cast<int>(slots_.size());
    std::vector<Upload> result;
    for (int b = 0; b < static_cast<int>(blocks_.size()); ++b) {
      Upload upload{kNetworkStages[i], b, b % slots, {}};
      if (b >= slots) upload.after_block = b - slots;
      result.push_back(upload);
    }
    return result;
  }

  static std::vector<Upload> resident_uploads() {
    std::vector<Upload> result;
    for (const Stage stage : kNetworkStages) result.push_back({stage, {}, {}, {}});
    return result;
  }

  // The next stage's first uploads move into this stage where there is room beside its peak.
  void add_prefetch(ResidencyPlan& plan) const {
    for (std::size_t i = 0; i < kStages; ++i) {
      const std::size_t next = (i + 1) % kStages;
      StagePlan& stage = plan.stages[i];
      if (!request_.networks[i].measured) continue;
      const std::uint64_t early = active_weights(next);
      if (stage.peak + early > request_.budget) continue;
      auto& uploads = plan.stages[next].uploads;
      const auto free_at_once =
          std::find_if(uploads.begin(), uploads.end(),
                       [](const Upload& upload) { return upload.after_block.has_value(); });
      stage.prefetch.assign(uploads.begin(), free_at_once);
      uploads.erase(uploads.begin(), free_at_once);
      stage.peak += early;
    }
  }

  // Only what is sure to be needed is a reason to refuse. Working sets are those of earlier rounds:
  // of larger pictures maybe, or of attempts that filled the device.
  void require_room(std::size_t i, std::uint64_t weights, const char* smaller_mode) const {
    const std::uint64_t fixed = weights + request_.session;
    if (fixed <= request_.budget) return;
    const std::string advice =
        smaller_mode != nullptr
            ? std::string("use offload-mode=") + smaller_mode
            : "the weights alone do not fit: use dtype=float16 or another device";
    throw Error(ErrorCode::OutOfMemory, std::string("the stage ") + stage_name(kNetworkStages[i]) +
                                            " needs " + mebibytes(fixed) +
                                            " of device memory for weights and stream, but only " +
                                            mebibytes(request_.budget) + " may be used; " + advice);
  }

  const ResidencyRequest& request_;
  std::vector<WeightBlock> blocks_;  // of a streamed UNet
  std::vector<std::uint64_t> slots_;
};

std::string list(const std::vector<Stage>& stages) {
  std::string text;
  for (const Stage stage : stages) text.append(text.empty() ? "" : " ").append(stage_name(stage));
  return text.empty() ? "nothing" : text;
}

std::string list(const std::vector<Upload>& uploads) {
  std::string text;
  for (const Upload& upload : uploads) {
    text.append(text.empty() ? "" : ", ").append(stage_name(upload.network));
    if (upload.block) text.append("[").append(std::to_string(*upload.block)).append("]");
    if (upload.slot) text += " in slot " + std::to_string(*upload.slot);
    if (upload.after_block)
      text.append(" after [").append(std::to_string(*upload.after_block)).append("]");
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

std::uint64_t ResidencyPlan::peak() const {
  std::uint64_t most = 0;
  for (const StagePlan& stage : stages) most = std::max(most, stage.peak);
  return most;
}

ResidencyPlan plan_residency(const ResidencyRequest& request) {
  return Planner(request).make();
}

std::string to_string(const ResidencyPlan& plan) {
  std::string text = std::string("residency ") + name(plan.mode) + ": peak " +
                     mebibytes(plan.peak()) + " of " + mebibytes(plan.budget);
  if (!plan.slots.empty())
    text += ", " + std::to_string(plan.slots.size()) + " slot(s) of " + mebibytes(plan.slots[0]);
  for (const StagePlan& stage : plan.stages) {
    text += std::string("\n  ") + stage_name(stage.stage) + ": drop " + list(stage.drop) +
            "; upload " + list(stage.uploads) + "; on the device " + list(stage.on_device) +
            "; meanwhile " + list(stage.prefetch) + "; peak " + mebibytes(stage.peak);
  }
  return text;
}

}  // namespace normalcrafter
