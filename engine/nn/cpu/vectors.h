// Vectors of float32 for the instruction set that a file is compiled for. Only for files that are
// compiled once per set: everything here is local to the file.
#pragma once

#include "nn/cpu/kernels.h"

namespace normalcrafter::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kPanel = 2 * kLanes;

typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::uint32_t Bits __attribute__((vector_size(kLanes * sizeof(float))));
typedef std::uint16_t Half __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));

inline Vec load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
inline Vec load(const BFloat16Bits* from) {
  Half h;
  __builtin_memcpy(&h, from, sizeof h);
  return (Vec)(__builtin_convertvector(h, Bits) << 16);
}
inline void store(float* to, Vec v) {
  __builtin_memcpy(to, &v, sizeof v);
}
inline void store(BFloat16Bits* to, Vec v) {
  const Bits bits = (Bits)v;
  const Bits rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const Bits is_nan = (Bits)((bits & 0x7FFFFFFF) > 0x7F800000);
  const Half h = __builtin_convertvector((is_nan & 0x7FC0) | (~is_nan & rounded), Half);
  __builtin_memcpy(to, &h, sizeof h);
}
inline Vec broadcast(float value) {
  return value - Vec{};
}

}  // namespace
}  // namespace normalcrafter::cpu
