// PyTorch's antialiased bicubic resize as tables, so that a kernel only multiplies and adds.
#pragma once

#include <cstdint>
#include <vector>

namespace normalcrafter::cuda {

/// One axis: result[i] = sum over k of source[first[i] + k] * weights[i * count + k].
struct ResizeTaps {
  int count = 0;                    ///< the most taps that a result has; the others' rest is zero
  std::vector<std::int32_t> first;  ///< [to]; first + count may pass the source's end
  std::vector<float> weights;       ///< [to, count]
};

/// Cubic with coefficient -0.5, its support widened when shrinking, weights renormalised at the
/// edges, corners not aligned. Both sizes >= 1.
ResizeTaps resize_taps(int from, int to);

}  // namespace normalcrafter::cuda
