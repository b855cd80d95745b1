#include "nn/panels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

namespace normalcrafter {
namespace {

// Elements of a row that are taken at once: as many lines of memory as are fetched ahead together,
// and so few that what a panel of them becomes stays in the L1 cache.
template <typename T>
constexpr int64_t kRun = 512 / static_cast<int64_t>(sizeof(T));

// from [panel, depth] -> to [depth, panel]
template <typename T>
void transpose(const T* from, int64_t panel, int64_t depth, T* to) {
  for (int64_t first = 0; first < depth; first += kRun<T>) {
    const int64_t count = std::min(kRun<T>, depth - first);
    for (int64_t row = 0; row < panel; ++row) {
      T run[kRun<T>];  // `from` may not be aligned to T
      std::memcpy(run, from + row * depth + first, static_cast<std::size_t>(count) * sizeof(T));
      for (int64_t i = 0; i < count; ++i) to[(first + i) * panel + row] = run[i];
    }
  }
}

template <typename T>
void transpose_panels(const at::Tensor& matrix, int64_t panel, at::Tensor& packed) {
  const auto* from = static_cast<const T*>(matrix.const_data_ptr());
  auto* to = static_cast<T*>(packed.mutable_data_ptr());
  const int64_t depth = packed.size(1);
  at::parallel_for(0, packed.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      transpose(from + p * panel * depth, panel, depth, to + p * panel * depth);
  });
}

}  // namespace

at::Tensor in_panels(const at::Tensor& matrix, int64_t panel, int64_t together) {
  const at::Tensor rows = matrix.contiguous();
  at::Tensor packed =
      at::empty({rows.size(0) / panel, rows.size(1) / together, panel * together}, rows.options());
  if (rows.element_size() * together == sizeof(uint32_t)) {
    transpose_panels<uint32_t>(rows, panel, packed);
  } else {
    TORCH_INTERNAL_ASSERT(rows.element_size() * together == sizeof(uint16_t));
    transpose_panels<uint16_t>(rows, panel, packed);
  }
  return packed;
}

}  // namespace normalcrafter
