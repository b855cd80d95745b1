// Working on a part of a batch at a time, so that intermediate tensors stay small: they take less
// memory, and more of them is still in the cache when it is read. Results are the same.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace normalcrafter {

/// How many items of `bytes` each to work on at once; at least one.
inline int64_t items_at_once(int64_t bytes) {
  constexpr int64_t kBytesAtOnce = 48 << 20;
  return std::max<int64_t>(1, kBytesAtOnce / std::max<int64_t>(1, bytes));
}

/// f, which treats each item of the first dimension by itself, applied to `group` items at a time.
template <typename Function>
at::Tensor in_groups(const at::Tensor& x, int64_t group, Function&& f) {
  if (group >= x.size(0)) return f(x);
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < x.size(0); i += group)
    parts.push_back(f(x.narrow(0, i, std::min(group, x.size(0) - i))));
  return at::cat(parts);
}

}  // namespace normalcrafter
