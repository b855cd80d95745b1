#include "model/host_slab.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <utility>

#include "normalcrafter/error.h"

namespace normalcrafter {
namespace {

constexpr std::uint64_t kHugePage = 2 << 20;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

[[noreturn]] void throw_no_memory(std::uint64_t bytes) {
  throw Error(ErrorCode::OutOfMemory, "no host memory left for " + std::to_string(bytes >> 20) +
                                          " MiB of prepared weights");
}

}  // namespace

struct HostSlab::Mapping {
  void* data = nullptr;
  std::uint64_t bytes = 0;
  std::function<void(void*)> release;

  ~Mapping() {
    if (release) release(data);
    if (bytes > 0) munmap(data, bytes);
  }
};

HostSlab::HostSlab(std::uint64_t capacity) : mapping_(std::make_shared<Mapping>()) {
  const std::uint64_t bytes = rounded_up(std::max<std::uint64_t>(capacity, 1), kHugePage);
  // Addresses only: pages come when they are written.
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw_no_memory(bytes);
  mapping_->data = memory;
  mapping_->bytes = bytes;
  madvise(memory, bytes, MADV_HUGEPAGE);  // fewer pages to lock; without it all works as well
}

void* HostSlab::data() const {
  return mapping_->data;
}

at::Tensor HostSlab::view(std::uint64_t offset, std::uint64_t bytes) const {
  return at::from_blob(
      static_cast<std::byte*>(mapping_->data) + offset, {static_cast<std::int64_t>(bytes)},
      [mapping = mapping_](void*) {}, at::TensorOptions(at::kByte));
}

at::Tensor HostSlab::put(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  const std::uint64_t offset = rounded_up(used_, kAlignment);
  const std::uint64_t bytes = dense.nbytes();
  if (offset + bytes > mapping_->bytes) throw_no_memory(offset + bytes);
  at::Tensor result = view_as(view(offset, bytes), 0, dense);
  result.copy_(dense);
  used_ = offset + bytes;
  return result;
}

void HostSlab::seal() {
  const std::uint64_t kept = rounded_up(used_, kHugePage);
  if (kept < mapping_->bytes) {
    munmap(static_cast<std::byte*>(mapping_->data) + kept, mapping_->bytes - kept);
    mapping_->bytes = kept;
  }
}

void HostSlab::on_release(std::function<void(void*)> release) {
  mapping_->release = std::move(release);
}

std::uint64_t HostSlab::offset_of(const at::Tensor& tensor) const {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(tensor.const_data_ptr()) -
                                    static_cast<const std::byte*>(mapping_->data));
}

at::Tensor HostSlab::bytes(std::uint64_t begin, std::uint64_t end) const {
  return view(begin, end - begin);
}

at::Tensor view_as(const at::Tensor& memory, std::uint64_t offset, const at::Tensor& like) {
  return memory
      .narrow(0, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(like.nbytes()))
      .view(like.scalar_type())
      .as_strided(like.sizes(), like.strides());
}

}  // namespace normalcrafter
