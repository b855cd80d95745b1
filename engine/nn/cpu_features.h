// What this processor computes bfloat16 with.
#pragma once

namespace normalcrafter {

/// Instructions for products of bfloat16 (AVX-512 BF16, AMX, or Arm's BF16).
bool cpu_has_bfloat16();
/// Units that multiply whole tiles of bfloat16 (AMX): several times faster than anything in
/// float32.
bool cpu_has_bfloat16_matrix_units();

}  // namespace normalcrafter
