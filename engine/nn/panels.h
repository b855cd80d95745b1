// The packed form of a layer's matrix that the CPU kernels read.
#pragma once

#include <ATen/ATen.h>

namespace normalcrafter {

/// matrix [out, depth], contiguous -> [out/panel, depth/together, panel * together]: of `panel`
/// rows side by side, `together` columns each. `out` is a multiple of panel, depth of together;
/// `together` elements are 2 or 4 bytes. Done by all threads: staged networks are packed again in
/// each round.
at::Tensor in_panels(const at::Tensor& matrix, int64_t panel, int64_t together = 1);

}  // namespace normalcrafter
