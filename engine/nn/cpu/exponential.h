// exp in float32 in a form that compilers turn into vector code. Only for files that are compiled
// once per instruction set: everything here is local to the file.
#pragma once

#include <cstdint>

namespace normalcrafter::cpu {
namespace {

inline float bits_to_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline std::uint32_t float_to_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

// exp(x) to about 1 unit in the last place: 2^n * e^r with |r| <= ln(2)/2 and a degree-6
// polynomial (the coefficients of Cephes' expf). NaN passes through.
inline float exp_f32(float x) {
  x = x > 88.0F ? 88.0F : x;
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504088896341F + 12582912.0F;  // 1.5 * 2^23 rounds to an integer
  const float n = shifted - 12582912.0F;
  float r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::uint32_t exponent = (float_to_bits(shifted) - float_to_bits(12582912.0F)) << 23;
  return bits_to_float(float_to_bits(p) + exponent);
}

}  // namespace
}  // namespace normalcrafter::cpu
