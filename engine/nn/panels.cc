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

}  // namespace

void pack_panel(const void* rows, int64_t depth, std::size_t element, const Panels& panels,
                void* to) {
  const int64_t words = depth / panels.together;
  if (element * static_cast<std::size_t>(panels.together) == sizeof(uint32_t)) {
    transpose(static_cast<const uint32_t*>(rows), panels.panel, words, static_cast<uint32_t*>(to));
  } else {
    TORCH_INTERNAL_ASSERT(element * static_cast<std::size_t>(panels.together) == sizeof(uint16_t));
    transpose(static_cast<const uint16_t*>(rows), panels.panel, words, static_cast<uint16_t*>(to));
  }
}

at::Tensor in_panels(const at::Tensor& matrix, const Panels& panels) {
  const at::Tensor rows = matrix.contiguous();
  const int64_t depth = rows.size(1);
  at::Tensor packed = at::empty(panels.shape(rows.size(0), depth), rows.options());
  const std::size_t element = rows.element_size();
  const std::size_t bytes = static_cast<std::size_t>(panels.panel * depth) * element;
  const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
  auto* to = static_cast<std::byte*>(packed.mutable_data_ptr());
  at::parallel_for(0, packed.size(0), 1, [&](int64_t begin, int64_t end) {
    for (auto p = static_cast<std::size_t>(begin); p < static_cast<std::size_t>(end); ++p)
      pack_panel(from + p * bytes, depth, element, panels, to + p * bytes);
  });
  return packed;
}

}  // namespace normalcrafter
