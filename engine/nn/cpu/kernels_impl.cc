// Compiled several times, with NORMALCRAFTER_ISA naming the instruction set; see kernels.h. Loops
// run over channels innermost so that the compiler vectorises them without reordering any sum.
#include "nn/cpu/kernels.h"

#include "nn/cpu/exponential.h"

namespace normalcrafter::cpu {
namespace {

inline float load(float value) {
  return value;
}
inline float load(BFloat16Bits value) {
  return bits_to_float(std::uint32_t{value} << 16);
}

inline void store(float* to, float value) {
  *to = value;
}
inline void store(BFloat16Bits* to, float value) {
  const std::uint32_t bits = float_to_bits(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;  // nearest even
  *to = static_cast<BFloat16Bits>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

// erf(x) in float32, error below 1.5e-7: a rational minimax approximation on [-4, 4] (the one that
// Eigen and XLA use), beyond which erf is 1 in float32.
inline float erf_f32(float x) {
  x = x > 3.832506856900711F ? 3.832506856900711F : x;
  x = x < -3.832506856900711F ? -3.832506856900711F : x;
  const float x2 = x * x;
  float a = 0.00022905065861350646F;
  a = a * x2 + 0.0034082910107109506F;
  a = a * x2 + 0.050955695062380861F;
  a = a * x2 + 0.18520832239976145F;
  a = a * x2 + 1.128379143519084F;
  float b = -1.1791602954361697e-7F;
  b = b * x2 + 0.000023547966471313185F;
  b = b * x2 + 0.0010179625278914885F;
  b = b * x2 + 0.014070470171167667F;
  b = b * x2 + 0.11098505178285362F;
  b = b * x2 + 0.49746925110067538F;
  b = b * x2 + 1.0F;
  return x * a / b;
}

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
void normalize(const T* x, T* y, std::int64_t pixels, std::int64_t channels,
               const float* __restrict mean, const float* __restrict scale,
               const float* __restrict shift, bool silu) {
  for (std::int64_t p = 0; p < pixels; ++p) {
    const T* from = x + p * channels;
    T* to = y + p * channels;
    if (silu) {
#pragma GCC ivdep
      for (std::int64_t c = 0; c < channels; ++c) {
        const float v = (load(from[c]) - mean[c]) * scale[c] + shift[c];
        store(to + c, v / (1.0F + exp_f32(-v)));
      }
    } else {
#pragma GCC ivdep
      for (std::int64_t c = 0; c < channels; ++c)
        store(to + c, (load(from[c]) - mean[c]) * scale[c] + shift[c]);
    }
  }
}

inline float gelu_f32(float x) {
  return 0.5F * x * (1.0F + erf_f32(x * 0.70710678118654752F));
}

template <typename T>
void gelu(T* x, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) store(x + i, gelu_f32(load(x[i])));
}

template <typename T>
void geglu(const T* x, T* y, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* value = x + r * 2 * width;
    const T* gate = value + width;
    T* to = y + r * width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) {
      store(to + i, load(value[i]) * gelu_f32(load(gate[i])));
    }
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
