// Compiled several times, with NORMALCRAFTER_ISA naming the instruction set; see kernels.h.
#include "nn/cpu/kernels.h"

#include "nn/cpu/functions.h"

namespace normalcrafter::cpu {
namespace {

// to[i] = f(at): at(array) gives the elements of an array that belong to i, a vector at a time.
// Reads and writes nothing beyond `count`.
template <typename T, typename F>
inline void map(T* to, std::int64_t count, F&& f) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    store(to + i, f([i](const auto* array) { return load(array + i); }));
  if (i == count) return;
  const auto left = static_cast<std::size_t>(count - i);
  T rest[kLanes];
  store(rest, f([i, left]<typename E>(const E* array) {
          E padded[kLanes] = {};
          __builtin_memcpy(padded, array + i, left * sizeof(E));
          return load(padded);
        }));
  __builtin_memcpy(to + i, rest, left * sizeof(T));
}

inline float load(float value) {
  return value;
}
inline float load(BFloat16Bits value) {
  return __builtin_bit_cast(float, std::uint32_t{value} << 16);
}

// Loops run over channels innermost so that the compiler vectorises them without reordering any
// sum.
template <typename T>
void moments(const T* x, std::int64_t pixels, std::int64_t channels, std::int64_t groups,
             float* scratch, double* mean, double* m2) {
  const std::int64_t width = channels / groups;
  float* sums = scratch;
  float* means = scratch + channels;
  const auto per_group = [&](double* out, double divisor) {
    for (std::int64_t g = 0; g < groups; ++g) {
      double total = 0;
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) total += sums[c];
      out[g] = total / divisor;
    }
  };
  for (std::int64_t c = 0; c < channels; ++c) sums[c] = 0;
  for (std::int64_t p = 0; p < pixels; ++p) {
    const T* row = x + p * channels;
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += load(row[c]);
  }
  per_group(mean, static_cast<double>(pixels * width));
  for (std::int64_t c = 0; c < channels; ++c) means[c] = static_cast<float>(mean[c / width]);
  for (std::int64_t c = 0; c < channels; ++c) sums[c] = 0;
  for (std::int64_t p = 0; p < pixels; ++p) {
    const T* row = x + p * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float d = load(row[c]) - means[c];
      sums[c] += d * d;
    }
  }
  per_group(m2, 1.0);
}

template <typename T>
void normalize(const T* x, T* y, std::int64_t pixels, std::int64_t channels, const float* mean,
               const float* scale, const float* shift, bool silu) {
  const auto each_pixel = [&](auto&& activation) {
    for (std::int64_t p = 0; p < pixels; ++p, x += channels, y += channels) {
      map(y, channels,
          [&](auto at) { return activation((at(x) - at(mean)) * at(scale) + at(shift)); });
    }
  };
  if (silu) {
    each_pixel([](Vec v) { return silu_f32(v); });
  } else {
    each_pixel([](Vec v) { return v; });
  }
}

template <typename T>
void gelu(T* x, std::int64_t count) {
  map(x, count, [x](auto at) { return gelu_f32(at(x)); });
}

template <typename T>
void geglu(const T* x, T* y, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += 2 * width, y += width) {
    const T* gate = x + width;
    map(y, width, [x, gate](auto at) { return at(x) * gelu_f32(at(gate)); });
  }
}

template <typename T>
constexpr NormKernels<T> set() {
  return {moments<T>, normalize<T>, geglu<T>, gelu<T>};
}

}  // namespace

#define NORMALCRAFTER_NAME2(isa) kernels_##isa
#define NORMALCRAFTER_NAME(isa) NORMALCRAFTER_NAME2(isa)
#define NORMALCRAFTER_TEXT2(isa) #isa
#define NORMALCRAFTER_TEXT(isa) NORMALCRAFTER_TEXT2(isa)

extern const Kernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA);
constinit const Kernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA) = {
    NORMALCRAFTER_TEXT(NORMALCRAFTER_ISA), set<float>(), set<BFloat16Bits>()};

}  // namespace normalcrafter::cpu
