// What moving parameters to a device needs of it: memory, copies beside the computing, and events
// that order the two.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "normalcrafter/model.h"

namespace normalcrafter {

/// Two queues: one computes (what the calling thread asks LibTorch for), the other copies. Each
/// does its work in order, neither waits for the other unless told to, and only finish_copies()
/// waits. Implemented over LibTorch's devices and, in the tests, by a checking stand-in on the CPU.
class TransferDevice {
 public:
  /// A point in a queue's work.
  class Event {
   public:
    virtual ~Event() = default;
  };
  using EventPtr = std::shared_ptr<const Event>;

  virtual ~TransferDevice() = default;

  /// Makes copies from host memory fast. False where it cannot; they work nevertheless.
  virtual bool pin(void* memory, std::size_t bytes) noexcept = 0;
  virtual void unpin(void* memory) noexcept = 0;

  /// [bytes] uint8 on the device. The memory is the computing queue's: what that queue did with it
  /// before may still be running, so a copy into it waits for after_computing(), and it is freed
  /// when computing has waited for the copies. Throws c10::OutOfMemoryError.
  virtual at::Tensor allocate(std::uint64_t bytes) = 0;
  /// Adds a copy from the host to the copying queue. `from` has to live until it is done.
  virtual void copy(const at::Tensor& to, const at::Tensor& from) = 0;

  /// Points behind all that the queues were given so far.
  virtual EventPtr after_copies() = 0;
  virtual EventPtr after_computing() = 0;
  /// The queue does nothing further before that point is reached.
  virtual void copies_wait(const EventPtr& event) = 0;
  virtual void computing_waits(const EventPtr& event) = 0;
  /// Returns when the copying queue has done all that it was given.
  virtual void finish_copies() noexcept = 0;
  /// Time between two points of the copying queue; none while the later one is not reached.
  virtual std::optional<double> seconds_between(const EventPtr& begin, const EventPtr& end) = 0;

  /// Bytes of device memory that this process may use: what is free, and what LibTorch keeps.
  virtual std::uint64_t budget() const = 0;
  /// Greatest number of bytes that tensors took since the last call.
  virtual std::uint64_t take_peak() = 0;
  /// Of LibTorch's tensors there, now and at most.
  virtual DeviceMemory memory() const = 0;
  /// Lets others have what LibTorch keeps of freed tensors.
  virtual void give_back() noexcept = 0;
};

/// Over LibTorch; nothing for the CPU, which needs no transfers.
std::unique_ptr<TransferDevice> make_transfer_device(const at::Device& device);

}  // namespace normalcrafter
