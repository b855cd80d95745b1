#include "model/residency.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace normalcrafter {
namespace {

bool contains(const std::vector<Stage>& stages, Stage stage) {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

}  // namespace

NetworkResidency::NetworkResidency(std::unique_ptr<TransferDevice> device)
    : device_(std::move(device)) {}

NetworkResidency::~NetworkResidency() {
  drop_all();
}

std::size_t NetworkResidency::index(Stage network) {
  const auto* const found = std::find(kNetworkStages.begin(), kNetworkStages.end(), network);
  return static_cast<std::size_t>(found - kNetworkStages.begin());
}

void NetworkResidency::add(Stage network, HostSlab home,
                           const std::vector<ParameterBlock>& blocks) {
  home.seal();
  if (device_->pin(home.data(), home.size()))
    home.on_release([device = device_.get()](void* memory) { device->unpin(memory); });
  std::vector<Block> own;
  for (const ParameterBlock& block : blocks) {
    Block& added = own.emplace_back(Block{block.name, home.size(), 0, {}});
    for (at::Tensor* const place : block.parameters.places()) {
      const std::uint64_t begin = home.offset_of(*place);
      added.begin = std::min(added.begin, begin);
      added.end = std::max(added.end, begin + place->nbytes());
      added.parameters.push_back({place, *place});
    }
    take_away(added.parameters);
  }
  networks_[index(network)].emplace(Network{std::move(home), std::move(own), {}, {}});
}

std::uint64_t NetworkResidency::bytes(Stage network) const {
  return networks_[index(network)]->home.size();
}

std::vector<WeightBlock> NetworkResidency::blocks(Stage network) const {
  std::vector<WeightBlock> result;
  for (const Block& block : networks_[index(network)]->blocks)
    result.push_back({block.name, block.end - block.begin});
  return result;
}

// A parameter is seen at its place from here on, or nowhere: what is used too early or too late is
// an undefined tensor, and an error.
void NetworkResidency::put(const std::vector<Parameter>& parameters, const at::Tensor& memory,
                           std::uint64_t memory_begins, const HostSlab& home) {
  for (const Parameter& parameter : parameters)
    *parameter.place =
        view_as(memory, home.offset_of(parameter.home) - memory_begins, parameter.home);
}

void NetworkResidency::take_away(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) parameter.place->reset();
}

void NetworkResidency::enter(const ResidencyPlan& plan, Stage stage) {
  const StagePlan& now = plan.stages[index(stage)];
  settle_timings();
  stage_ = stage;
  streams_ = plan.mode == Residency::Streamed && stage == Stage::Unet;
  for (const Stage network : kNetworkStages)
    if (!contains(now.on_device, network)) drop(at(network));
  if (!streams_) drop_slots();
  for (const Stage network : now.on_device) {
    fetch(network);
    use(at(network));
  }
  if (streams_) {
    make_slots(plan.slots);
    walk_ = now.uploads;
    begin_walk();
  }
  prefetch(plan.slots, now.prefetch);
}

void NetworkResidency::fetch(Stage network) {
  if (!at(network).memory.defined()) upload(network);
}

at::Tensor NetworkResidency::allocate(std::uint64_t bytes) {
  at::Tensor memory = device_->allocate(bytes);
  device_->copies_wait(device_->after_computing());
  return memory;
}

TransferDevice::EventPtr NetworkResidency::copy(Stage network, const at::Tensor& to,
                                                std::uint64_t begin, std::uint64_t end) {
  const auto started = device_->after_copies();
  device_->copy(to, at(network).home.bytes(begin, end));
  const auto finished = device_->after_copies();
  const std::lock_guard lock(timing_mutex_);
  uploads_.bytes[static_cast<int>(network)] += end - begin;
  timings_.push_back({network, started, finished});
  return finished;
}

void NetworkResidency::upload(Stage network) {
  Network& entry = at(network);
  entry.memory = allocate(entry.home.size());
  entry.uploaded = copy(network, entry.memory, 0, entry.home.size());
}

void NetworkResidency::use(Network& network) {
  if (network.uploaded == nullptr) return;
  device_->computing_waits(std::exchange(network.uploaded, nullptr));
  for (const Block& block : network.blocks) put(block.parameters, network.memory, 0, network.home);
}

void NetworkResidency::drop(Network& network) noexcept {
  for (const Block& block : network.blocks) take_away(block.parameters);
  try {
    // The memory goes back to the computing queue, which must not write there before the copy has.
    if (network.uploaded != nullptr) device_->computing_waits(network.uploaded);
  } catch (const std::exception&) {
    // A device that has failed tells so where it is used.
  }
  network.uploaded = nullptr;
  network.memory.reset();
}

void NetworkResidency::make_slots(const std::vector<std::uint64_t>& sizes) {
  const auto fits = [](const Slot& slot, std::uint64_t size) {
    return slot.memory.nbytes() == size;
  };
  if (std::equal(slots_.begin(), slots_.end(), sizes.begin(), sizes.end(), fits)) return;
  drop_slots();
  for (const std::uint64_t size : sizes) slots_.push_back({allocate(size), {}, {}, {}});
}

void NetworkResidency::drop_slots() noexcept {
  for (Slot& slot : slots_) {
    if (slot.block)
      take_away(
          networks_[index(Stage::Unet)]->blocks[static_cast<std::size_t>(*slot.block)].parameters);
    try {
      if (slot.uploaded != nullptr) device_->computing_waits(slot.uploaded);
    } catch (const std::exception&) {
      // As in drop().
    }
  }
  slots_.clear();
}

void NetworkResidency::upload_block(int block, int slot) {
  Slot& target = slots_[static_cast<std::size_t>(slot)];
  const Block& source = at(Stage::Unet).blocks[static_cast<std::size_t>(block)];
  if (target.block) {
    // A walk that was broken off has not left its block.
    take_away(at(Stage::Unet).blocks[static_cast<std::size_t>(*target.block)].parameters);
    if (target.free == nullptr) target.free = device_->after_computing();
    device_->copies_wait(target.free);
  }
  target.free = nullptr;
  const auto size = static_cast<std::int64_t>(source.end - source.begin);
  target.block.reset();  // should the copy fail, it holds nothing
  target.uploaded = copy(Stage::Unet, target.memory.narrow(0, 0, size), source.begin, source.end);
  target.block = block;
}

// A window's first blocks, unless they were prefetched.
void NetworkResidency::begin_walk() {
  for (int slot = 0; slot < static_cast<int>(slots_.size()); ++slot)
    if (slots_[static_cast<std::size_t>(slot)].block != slot) upload_block(slot, slot);
}

void NetworkResidency::enter_block(int block) {
  if (block == 0) begin_walk();
  const std::size_t number = static_cast<std::size_t>(block) % slots_.size();
  Slot& slot = slots_[number];
  // A walk that was broken off left another block there.
  if (slot.block != block) upload_block(block, static_cast<int>(number));
  device_->computing_waits(slot.uploaded);
  const Network& unet = at(Stage::Unet);
  const Block& entered = unet.blocks[static_cast<std::size_t>(block)];
  put(entered.parameters, slot.memory, entered.begin, unet.home);
}

void NetworkResidency::leave_block(int block) {
  take_away(at(Stage::Unet).blocks[static_cast<std::size_t>(block)].parameters);
  slots_[static_cast<std::size_t>(block) % slots_.size()].free = device_->after_computing();
  for (const Upload& upload : walk_)
    if (upload.after_block == block) upload_block(*upload.block, *upload.slot);
}

void NetworkResidency::prefetch(const std::vector<std::uint64_t>& slots,
                                const std::vector<Upload>& uploads) {
  try {
    for (const Upload& upload : uploads) {
      if (!upload.block) {
        fetch(upload.network);
      } else {
        make_slots(slots);
        upload_block(*upload.block, *upload.slot);
      }
    }
  } catch (const c10::OutOfMemoryError&) {
    // There is less room than planned: the network comes when its stage begins.
    drop_prefetched();
  }
}

bool NetworkResidency::drop_prefetched() noexcept {
  bool any = false;
  for (auto& network : networks_) {
    if (!network || network->uploaded == nullptr) continue;
    drop(*network);
    any = true;
  }
  if (!streams_ && !slots_.empty()) {
    drop_slots();
    any = true;
  }
  return any;
}

void NetworkResidency::drop_all() noexcept {
  for (auto& network : networks_)
    if (network) drop(*network);
  drop_slots();
  device_->finish_copies();
  device_->give_back();
}

std::vector<Stage> NetworkResidency::on_device() const {
  std::vector<Stage> result;
  for (const Stage network : kNetworkStages) {
    const auto& entry = networks_[index(network)];
    if (entry && entry->memory.defined()) result.push_back(network);
  }
  return result;
}

std::uint64_t NetworkResidency::held() const {
  std::uint64_t sum = 0;
  for (const auto& network : networks_)
    if (network && network->memory.defined()) sum += network->memory.nbytes();
  for (const Slot& slot : slots_) sum += slot.memory.nbytes();
  return sum;
}

void NetworkResidency::settle_timings() const {
  const std::lock_guard lock(timing_mutex_);
  std::erase_if(timings_, [this](const Timing& timing) {
    const auto seconds = device_->seconds_between(timing.begin, timing.end);
    if (seconds) uploads_.seconds[static_cast<int>(timing.network)] += *seconds;
    return seconds.has_value();
  });
}

NetworkResidency::Uploads NetworkResidency::uploads() const {
  settle_timings();
  const std::lock_guard lock(timing_mutex_);
  return uploads_;
}

}  // namespace normalcrafter
