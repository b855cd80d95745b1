// One stretch of host memory that a network's prepared parameters live in, one after the other.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace normalcrafter {

/// Reserves addresses and takes memory as it is filled, so that a network's size need not be known
/// before it is built. The tensors it gives out keep its memory alive. For one thread.
class HostSlab {
 public:
  /// Where each tensor begins: what kernels, vector instructions and copies like.
  static constexpr std::uint64_t kAlignment = 256;

  /// `capacity` bytes at most. Throws Error OutOfMemory.
  explicit HostSlab(std::uint64_t capacity);

  /// Copies a tensor of any device behind what is there -> the same values, sizes and strides in
  /// the slab. Throws Error OutOfMemory past the capacity.
  at::Tensor put(const at::Tensor& tensor);
  /// Gives back what is reserved and not filled. Nothing can be put after it.
  void seal();
  /// Called with the memory before it is given back, as by page-locking.
  void on_release(std::function<void(void*)> release);

  std::uint64_t size() const { return used_; }
  void* data() const;
  /// Where a tensor that put() gave begins.
  std::uint64_t offset_of(const at::Tensor& tensor) const;
  /// The bytes from `begin` to `end`, uint8.
  at::Tensor bytes(std::uint64_t begin, std::uint64_t end) const;

 private:
  struct Mapping;
  at::Tensor view(std::uint64_t offset, std::uint64_t bytes) const;

  std::shared_ptr<Mapping> mapping_;
  std::uint64_t used_ = 0;
};

/// The part of `memory` (uint8) from `offset` on as a tensor of the type, sizes and strides of
/// `like`, which must be dense.
at::Tensor view_as(const at::Tensor& memory, std::uint64_t offset, const at::Tensor& like);

}  // namespace normalcrafter
