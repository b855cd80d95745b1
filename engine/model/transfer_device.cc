#include "model/transfer_device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "model/device.h"
#include "nn/cuda/runtime.h"
#include "nn/cuda/tensors.h"

namespace normalcrafter {
namespace {

// By way of c10's device-independent interface, so that this compiles against every LibTorch.
class TorchTransferDevice final : public TransferDevice {
 public:
  explicit TorchTransferDevice(const at::Device& device)
      : device_(device), guard_(device.type()), copies_(guard_.getNewStream(device)) {}

  bool pin(void* memory, std::size_t bytes) noexcept override {
    if constexpr (cuda::kCompiled) return cuda::page_lock(memory, bytes);
    return false;
  }
  void unpin(void* memory) noexcept override {
    if constexpr (cuda::kCompiled) cuda::page_unlock(memory);
  }

  at::Tensor allocate(std::uint64_t bytes) override {
    return at::empty({static_cast<std::int64_t>(bytes)},
                     at::TensorOptions(device_).dtype(at::kByte));
  }
  void copy(const at::Tensor& to, const at::Tensor& from) override {
    const c10::StreamGuard on_copies(copies_);
    to.copy_(from, /*non_blocking=*/true);
  }

  EventPtr after_copies() override { return recorded(copies_); }
  EventPtr after_computing() override { return recorded(guard_.getStream(device_)); }
  void copies_wait(const EventPtr& event) override { of(event).block(copies_); }
  void computing_waits(const EventPtr& event) override {
    of(event).block(guard_.getStream(device_));
  }
  void finish_copies() noexcept override {
    try {
      copies_.synchronize();
    } catch (const std::exception&) {
      // A device that has failed tells so where it is used.
    }
  }
  std::optional<double> seconds_between(const EventPtr& begin, const EventPtr& end) override {
    try {
      if (!of(begin).query() || !of(end).query()) return {};
      return of(begin).elapsedTime(of(end)) / 1000;
    } catch (const std::exception&) {
      return {};  // statistics are asked for after the device has failed, too
    }
  }

  std::uint64_t budget() const override {
    // Libraries take memory beside LibTorch's: kernels' code when they first run, workspaces.
    constexpr std::uint64_t kBesideTensors = 256 << 20;
    const auto [free, total] = allocator().getMemoryInfo(device_.index());
    const std::uint64_t all = free + memory().reserved;
    return all - std::min<std::uint64_t>(all, kBesideTensors);
  }
  std::uint64_t take_peak() override {
    if (!allocator().initialized()) return 0;
    const std::uint64_t peak = peak_since();
    highest_ = std::max(highest_.load(), peak);
    allocator().resetPeakStats(device_.index());
    return peak;
  }
  DeviceMemory memory() const override {
    if (!allocator().initialized()) return {};
    const auto stats = allocator().getDeviceStats(device_.index());
    return {static_cast<std::uint64_t>(stats.allocated_bytes[kAll].current),
            static_cast<std::uint64_t>(stats.reserved_bytes[kAll].current),
            std::max(highest_.load(), peak_since())};
  }
  void give_back() noexcept override { give_back_cached_memory(device_); }

 private:
  static constexpr auto kAll = static_cast<std::size_t>(at::CachingAllocator::StatType::AGGREGATE);

  struct Recorded final : Event {
    explicit Recorded(c10::DeviceType type) : event(type, c10::EventFlag::BACKEND_DEFAULT) {}
    c10::Event event;  // one that can tell times
  };
  static const c10::Event& of(const EventPtr& event) {
    return static_cast<const Recorded&>(*event).event;
  }
  EventPtr recorded(const c10::Stream& stream) const {
    auto result = std::make_shared<Recorded>(device_.type());
    result->event.record(stream);
    return result;
  }
  at::DeviceAllocator& allocator() const { return *at::getDeviceAllocator(device_.type()); }
  std::uint64_t peak_since() const {
    if (!allocator().initialized()) return 0;
    const auto stats = allocator().getDeviceStats(device_.index());
    return static_cast<std::uint64_t>(stats.allocated_bytes[kAll].peak);
  }

  at::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream copies_;
  std::atomic<std::uint64_t> highest_ = 0;  // of the peaks that take_peak() has forgotten
};

}  // namespace

std::unique_ptr<TransferDevice> make_transfer_device(const at::Device& device) {
  if (device.is_cpu()) return nullptr;
  return std::make_unique<TorchTransferDevice>(device);
}

}  // namespace normalcrafter
