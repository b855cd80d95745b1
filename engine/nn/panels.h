// The packed form of a layer's matrix that the CPU kernels read.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstddef>

namespace normalcrafter {

/// How a matrix's elements lie in memory: `panel` rows side by side, `together` columns each.
struct Panels {
  int64_t panel = 1;
  int64_t together = 1;
  /// Of a packed matrix [out, depth]: [out/panel, depth/together, panel * together].
  std::array<int64_t, 3> shape(int64_t out, int64_t depth) const {
    return {out / panel, depth / together, panel * together};
  }
};

/// matrix [out, depth], contiguous -> its packed form. `out` is a multiple of panel, depth of
/// together; `together` elements are 2 or 4 bytes. Done by all threads: staged networks are packed
/// again in each round.
at::Tensor in_panels(const at::Tensor& matrix, const Panels& panels);

/// One panel's rows [panel, depth] of elements of 2 or 4 bytes, at any address, to `to`.
void pack_panel(const void* rows, int64_t depth, std::size_t element, const Panels& panels,
                void* to);

}  // namespace normalcrafter
