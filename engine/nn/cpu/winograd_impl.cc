// Compiled several times, like kernels_impl.cc: the pieces of Winograd's convolutions F(4x4,3x3)
// and F(6x6,3x3) in float32 on channels-last data. A vector holds consecutive channels.
//
// The method is that of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
#include "nn/cpu/winograd.h"

#include "nn/cpu/vectors.h"

namespace normalcrafter::cpu {
namespace {

// The steps in one dimension, for tiles of so many outputs.
template <int kTile>
struct Steps;

// The points of interpolation are 0, A, -A, B, -B and infinity. Lavin and Gray take A = 1, B = 2;
// 3/4 and 3/2 leave less than half of their rounding error (Barabasz et al., "Error Analysis and
// Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020, on the choice),
// and every coefficient of the input and output steps is exact.
template <>
struct Steps<4> {
  static constexpr float kA = 0.75F;
  static constexpr float kB = 1.5F;
  static constexpr float kA2 = kA * kA;
  static constexpr float kB2 = kB * kB;

  // B^T d.
  static void input(const Vec d[6], Vec out[6]) {
    const Vec even_a = d[4] - kB2 * d[2];
    const Vec odd_a = kA * (d[3] - kB2 * d[1]);
    const Vec even_b = d[4] - kA2 * d[2];
    const Vec odd_b = kB * (d[3] - kA2 * d[1]);
    out[0] = kA2 * kB2 * d[0] - (kA2 + kB2) * d[2] + d[4];
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = kA2 * kB2 * d[1] - (kA2 + kB2) * d[3] + d[5];
  }

  // A^T m.
  static void output(const Vec m[6], Vec out[4]) {
    const Vec sum_a = m[1] + m[2];
    const Vec difference_a = m[1] - m[2];
    const Vec sum_b = m[3] + m[4];
    const Vec difference_b = m[3] - m[4];
    out[0] = m[0] + sum_a + sum_b;
    out[1] = kA * difference_a + kB * difference_b;
    out[2] = kA2 * sum_a + kB2 * sum_b;
    out[3] = kA * kA2 * difference_a + kB * kB2 * difference_b + m[5];
  }

  // G g.
  static void weight(const Vec g[3], Vec out[6]) {
    constexpr float kOfZero = 1 / (kA2 * kB2);
    constexpr float kOfA = 1 / (2 * kA2 * (kA2 - kB2));
    constexpr float kOfB = 1 / (2 * kB2 * (kB2 - kA2));
    const Vec even_a = (g[0] + kA2 * g[2]) * kOfA;
    const Vec even_b = (g[0] + kB2 * g[2]) * kOfB;
    out[0] = g[0] * kOfZero;
    out[1] = even_a + g[1] * (kA * kOfA);
    out[2] = even_a - g[1] * (kA * kOfA);
    out[3] = even_b + g[1] * (kB * kOfB);
    out[4] = even_b - g[1] * (kB * kOfB);
    out[5] = g[2];
  }
};

// The points 0, 1/2, -1/2, 1, -1, 2, -2 and infinity. The error is five times that of Steps<4>,
// which is still little against the rounding of bfloat16.
template <>
struct Steps<6> {
  static constexpr float kA = 0.5F;
  static constexpr float kB = 1.0F;
  static constexpr float kC = 2.0F;
  static constexpr float kA2 = kA * kA;
  static constexpr float kB2 = kB * kB;
  static constexpr float kC2 = kC * kC;

  // The two values at +p and -p, where `sum` and `product` are those of the other points' squares.
  static void input_pair(const Vec d[8], float p, float sum, float product, Vec out[2]) {
    const Vec even = d[6] - sum * d[4] + product * d[2];
    const Vec odd = p * (d[5] - sum * d[3] + product * d[1]);
    out[0] = even + odd;
    out[1] = even - odd;
  }
  static void input(const Vec d[8], Vec out[8]) {
    constexpr float kSum = kA2 + kB2 + kC2;
    constexpr float kPairs = kA2 * kB2 + kA2 * kC2 + kB2 * kC2;
    constexpr float kProduct = kA2 * kB2 * kC2;
    out[0] = d[6] - kSum * d[4] + kPairs * d[2] - kProduct * d[0];
    input_pair(d, kA, kB2 + kC2, kB2 * kC2, out + 1);
    input_pair(d, kB, kA2 + kC2, kA2 * kC2, out + 3);
    input_pair(d, kC, kA2 + kB2, kA2 * kB2, out + 5);
    out[7] = d[7] - kSum * d[5] + kPairs * d[3] - kProduct * d[1];
  }

  static void output(const Vec m[8], Vec out[6]) {
    Vec a[2] = {m[1] + m[2], m[1] - m[2]};
    Vec b[2] = {m[3] + m[4], m[3] - m[4]};
    Vec c[2] = {m[5] + m[6], m[5] - m[6]};
    out[0] = m[0] + a[0] + b[0] + c[0];
    float power_a = kA;
    float power_b = kB;
    float power_c = kC;
#pragma GCC unroll 5
    for (int i = 1; i < 6; ++i) {
      out[i] = power_a * a[i % 2] + power_b * b[i % 2] + power_c * c[i % 2];
      power_a *= kA;
      power_b *= kB;
      power_c *= kC;
    }
    out[5] += m[7];
  }

  static void weight_pair(const Vec g[3], float p, float factor, Vec out[2]) {
    const Vec even = (g[0] + p * p * g[2]) * factor;
    const Vec odd = g[1] * (p * factor);
    out[0] = even + odd;
    out[1] = even - odd;
  }
  static void weight(const Vec g[3], Vec out[8]) {
    out[0] = g[0] * (-1 / (kA2 * kB2 * kC2));
    weight_pair(g, kA, 1 / (2 * kA2 * (kA2 - kB2) * (kA2 - kC2)), out + 1);
    weight_pair(g, kB, 1 / (2 * kB2 * (kB2 - kA2) * (kB2 - kC2)), out + 3);
    weight_pair(g, kC, 1 / (2 * kC2 * (kC2 - kA2) * (kC2 - kB2)), out + 5);
    out[7] = g[2];
  }
};

template <typename T, int kTile>
void transform_weights(const T* packed, std::int64_t from, std::int64_t channels, float* u) {
  constexpr int kPatch = kTile + 2;
  for (std::int64_t c = 0; c < channels; ++c) {
    const T* g = packed + (from + c) * 9 * kPanel;
    for (int half = 0; half < kPanel; half += kLanes) {
      Vec columns[kPatch][3];
      for (int x = 0; x < 3; ++x) {
        const Vec column[3] = {load(g + (0 + x) * kPanel + half), load(g + (3 + x) * kPanel + half),
                               load(g + (6 + x) * kPanel + half)};
        Vec stepped[kPatch];
        Steps<kTile>::weight(column, stepped);
        for (int y = 0; y < kPatch; ++y) columns[y][x] = stepped[y];
      }
      for (int y = 0; y < kPatch; ++y) {
        Vec row[kPatch];
        Steps<kTile>::weight(columns[y], row);
        for (int x = 0; x < kPatch; ++x)
          store(u + ((y * kPatch + x) * channels + c) * kPanel + half, row[x]);
      }
    }
  }
}

// A tile's patch, zero where it leaves the picture.
template <typename T, int kTile>
void transform_input(const T* picture, const WinogradPicture& size, bool doubled,
                     std::int64_t tile_y, std::int64_t tile_x, float* v,
                     std::int64_t position_stride) {
  constexpr int kPatch = kTile + 2;
  const auto [height, width, channels] = size;
  const int shift = doubled ? 1 : 0;
  const std::int64_t source_width = width >> shift;
  const std::int64_t top = kTile * tile_y - 1;
  const std::int64_t left = kTile * tile_x - 1;
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    Vec rows[kPatch][kPatch];  // [x][y] after the vertical step
    for (int x = 0; x < kPatch; ++x) {
      Vec column[kPatch] = {};
      const std::int64_t at_x = left + x;
      if (at_x >= 0 && at_x < width) {
        for (int y = 0; y < kPatch; ++y) {
          const std::int64_t at_y = top + y;
          if (at_y >= 0 && at_y < height)
            column[y] =
                load(picture + ((at_y >> shift) * source_width + (at_x >> shift)) * channels + c);
        }
      }
      Steps<kTile>::input(column, rows[x]);
    }
    for (int y = 0; y < kPatch; ++y) {
      Vec row[kPatch];
      for (int x = 0; x < kPatch; ++x) row[x] = rows[x][y];
      Vec out[kPatch];
      Steps<kTile>::input(row, out);
      for (int x = 0; x < kPatch; ++x) store(v + (y * kPatch + x) * position_stride + c, out[x]);
    }
  }
}

template <typename T, int kTile>
void transform_output(const float* m, std::int64_t position_stride, const float* bias, T* picture,
                      const WinogradPicture& size, std::int64_t tile_y, std::int64_t tile_x,
                      const T* residual) {
  constexpr int kPatch = kTile + 2;
  const auto [height, width, channels] = size;
  for (int half = 0; half < kPanel; half += kLanes) {
    Vec columns[kPatch][kTile];  // [x][y] after the vertical step
    for (int x = 0; x < kPatch; ++x) {
      Vec column[kPatch];
      for (int y = 0; y < kPatch; ++y)
        column[y] = load(m + (y * kPatch + x) * position_stride + half);
      Steps<kTile>::output(column, columns[x]);
    }
    const Vec shift = load(bias + half);
    for (int y = 0; y < kTile; ++y) {
      const std::int64_t at_y = kTile * tile_y + y;
      if (at_y >= height) break;
      Vec row[kPatch];
      for (int x = 0; x < kPatch; ++x) row[x] = columns[x][y];
      Vec out[kTile];
      Steps<kTile>::output(row, out);
      for (int x = 0; x < kTile; ++x) {
        const std::int64_t at_x = kTile * tile_x + x;
        if (at_x >= width) break;
        const std::int64_t at = (at_y * width + at_x) * channels + half;
        Vec value = out[x] + shift;
        if (residual != nullptr) value += load(residual + at);
        store(picture + at, value);
      }
    }
  }
}

void transform_temporal_weights(const float* packed, std::int64_t from, std::int64_t channels,
                                float* u) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* g = packed + (from + c) * 3 * kPanel;
    for (int half = 0; half < kPanel; half += kLanes) {
      const Vec taps[3] = {load(g + half), load(g + kPanel + half), load(g + 2 * kPanel + half)};
      Vec out[6];
      Steps<4>::weight(taps, out);
      for (int i = 0; i < 6; ++i) store(u + (i * channels + c) * kPanel + half, out[i]);
    }
  }
}

void transform_temporal_input(const float* sequence, std::int64_t frames, std::int64_t frame_stride,
                              std::int64_t channels, std::int64_t tile, float* v,
                              std::int64_t position_stride) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    Vec taps[6] = {};
    for (int i = 0; i < 6; ++i) {
      const std::int64_t frame = 4 * tile - 1 + i;
      if (frame >= 0 && frame < frames) taps[i] = load(sequence + frame * frame_stride + c);
    }
    Vec out[6];
    Steps<4>::input(taps, out);
    for (int i = 0; i < 6; ++i) store(v + i * position_stride + c, out[i]);
  }
}

void transform_temporal_output(const float* m, std::int64_t position_stride, const float* bias,
                               float* sequence, std::int64_t frames, std::int64_t frame_stride,
                               std::int64_t tile, const float* residual) {
  for (int half = 0; half < kPanel; half += kLanes) {
    Vec values[6];
    for (int i = 0; i < 6; ++i) values[i] = load(m + i * position_stride + half);
    Vec out[4];
    Steps<4>::output(values, out);
    const Vec shift = load(bias + half);
    for (int i = 0; i < 4 && 4 * tile + i < frames; ++i) {
      const std::int64_t at = (4 * tile + i) * frame_stride + half;
      Vec value = out[i] + shift;
      if (residual != nullptr) value += load(residual + at);
      store(sequence + at, value);
    }
  }
}

template <typename T, int kTile>
constexpr WinogradTransforms<T> transforms() {
  return {kTile, transform_weights<T, kTile>, transform_input<T, kTile>,
          transform_output<T, kTile>};
}

}  // namespace

#define NORMALCRAFTER_NAME2(isa) winograd_##isa
#define NORMALCRAFTER_NAME(isa) NORMALCRAFTER_NAME2(isa)

extern const WinogradKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA);
constinit const WinogradKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA) = {
    kLanes,
    kPanel,
    transforms<float, 4>(),
    transforms<BFloat16Bits, 4>(),
    transforms<BFloat16Bits, 6>(),
    {transform_temporal_weights, transform_temporal_input, transform_temporal_output}};

}  // namespace normalcrafter::cpu
