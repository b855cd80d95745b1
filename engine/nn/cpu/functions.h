// Functions of vectors of float32. Like vectors.h only for files that are compiled once per
// instruction set. On vectors and not left to the compiler's vectoriser: that computes a function
// once more for values beyond each bound, and subnormal results there cost a hundred cycles each.
#pragma once

#include "nn/cpu/vectors.h"

namespace normalcrafter::cpu {
namespace {

// NaN passes through.
inline Vec clamped(Vec x, float least, float most) {
  x = x > most ? broadcast(most) : x;
  return x < least ? broadcast(least) : x;
}

// exp(x) to about 1 unit in the last place: 2^n * e^r with |r| <= ln(2)/2 and a degree-6
// polynomial (the coefficients of Cephes' expf). NaN passes through.
inline Vec exp_f32(Vec x) {
  x = clamped(x, -87.0F, 88.0F);
  const Vec rounder = broadcast(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec shifted = x * 1.44269504088896341F + rounder;
  const Vec n = shifted - rounder;
  Vec r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  Vec p = broadcast(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const Bits exponent = ((Bits)shifted - (Bits)rounder) << 23;
  return (Vec)((Bits)p + exponent);
}

inline Vec silu_f32(Vec x) {
  return x / (1.0F + exp_f32(-x));
}

// erf(x) in float32, error below 1.5e-7: a rational minimax approximation on [-4, 4] (the one that
// Eigen and XLA use), beyond which erf is 1 in float32.
inline Vec erf_f32(Vec x) {
  x = clamped(x, -3.832506856900711F, 3.832506856900711F);
  const Vec x2 = x * x;
  Vec a = broadcast(0.00022905065861350646F);
  a = a * x2 + 0.0034082910107109506F;
  a = a * x2 + 0.050955695062380861F;
  a = a * x2 + 0.18520832239976145F;
  a = a * x2 + 1.128379143519084F;
  Vec b = broadcast(-1.1791602954361697e-7F);
  b = b * x2 + 0.000023547966471313185F;
  b = b * x2 + 0.0010179625278914885F;
  b = b * x2 + 0.014070470171167667F;
  b = b * x2 + 0.11098505178285362F;
  b = b * x2 + 0.49746925110067538F;
  b = b * x2 + 1.0F;
  return x * a / b;
}

inline Vec gelu_f32(Vec x) {
  return 0.5F * x * (1.0F + erf_f32(x * 0.70710678118654752F));
}

}  // namespace
}  // namespace normalcrafter::cpu
