// Compiled several times, like kernels_impl.cc: the pieces of a Winograd F(4x4,3x3) convolution in
// float32 on channels-last data. A vector holds consecutive channels.
//
// The method is that of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
#include "nn/cpu/winograd.h"

#include "nn/cpu/vectors.h"

namespace normalcrafter::cpu {
namespace {

// The points of interpolation are 0, A, -A, B, -B and infinity. Lavin and Gray take A = 1, B = 2;
// 3/4 and 3/2 leave less than half of their rounding error (Barabasz et al., "Error Analysis and
// Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020, on the choice),
// and every coefficient of the input and output steps is exact.
constexpr float kA = 0.75F;
constexpr float kB = 1.5F;
constexpr float kA2 = kA * kA;
constexpr float kB2 = kB * kB;

// B^T d for six values.
inline void input_step(const Vec d[6], Vec out[6]) {
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

// A^T m for six values.
inline void output_step(const Vec m[6], Vec out[4]) {
  const Vec sum_a = m[1] + m[2];
  const Vec difference_a = m[1] - m[2];
  const Vec sum_b = m[3] + m[4];
  const Vec difference_b = m[3] - m[4];
  out[0] = m[0] + sum_a + sum_b;
  out[1] = kA * difference_a + kB * difference_b;
  out[2] = kA2 * sum_a + kB2 * sum_b;
  out[3] = kA * kA2 * difference_a + kB * kB2 * difference_b + m[5];
}

// G g for three values.
inline void weight_step(const Vec g[3], Vec out[6]) {
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

template <typename T>
void transform_weights(const T* packed, std::int64_t from, std::int64_t channels, float* u) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const T* g = packed + (from + c) * 9 * kPanel;
    for (int half = 0; half < kPanel; half += kLanes) {
      Vec columns[6][3];
      for (int x = 0; x < 3; ++x) {
        const Vec column[3] = {load(g + (0 + x) * kPanel + half), load(g + (3 + x) * kPanel + half),
                               load(g + (6 + x) * kPanel + half)};
        Vec stepped[6];
        weight_step(column, stepped);
        for (int y = 0; y < 6; ++y) columns[y][x] = stepped[y];
      }
      for (int y = 0; y < 6; ++y) {
        Vec row[6];
        weight_step(columns[y], row);
        for (int x = 0; x < 6; ++x) store(u + ((y * 6 + x) * channels + c) * kPanel + half, row[x]);
      }
    }
  }
}

// A tile's 6x6 patch, zero where it leaves the picture.
template <typename T>
void transform_input(const T* picture, const WinogradPicture& size, bool doubled,
                     std::int64_t tile_y, std::int64_t tile_x, float* v,
                     std::int64_t position_stride) {
  const auto [height, width, channels] = size;
  const int shift = doubled ? 1 : 0;
  const std::int64_t source_width = width >> shift;
  const std::int64_t top = 4 * tile_y - 1;
  const std::int64_t left = 4 * tile_x - 1;
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    Vec rows[6][6];  // [x][y] after the vertical step
    for (int x = 0; x < 6; ++x) {
      Vec column[6] = {};
      const std::int64_t at_x = left + x;
      if (at_x >= 0 && at_x < width) {
        for (int y = 0; y < 6; ++y) {
          const std::int64_t at_y = top + y;
          if (at_y >= 0 && at_y < height)
            column[y] =
                load(picture + ((at_y >> shift) * source_width + (at_x >> shift)) * channels + c);
        }
      }
      input_step(column, rows[x]);
    }
    for (int y = 0; y < 6; ++y) {
      const Vec row[6] = {rows[0][y], rows[1][y], rows[2][y], rows[3][y], rows[4][y], rows[5][y]};
      Vec out[6];
      input_step(row, out);
      for (int x = 0; x < 6; ++x) store(v + (y * 6 + x) * position_stride + c, out[x]);
    }
  }
}

template <typename T>
void transform_output(const float* m, std::int64_t position_stride, const float* bias, T* picture,
                      const WinogradPicture& size, std::int64_t tile_y, std::int64_t tile_x,
                      const T* residual) {
  const auto [height, width, channels] = size;
  for (int half = 0; half < kPanel; half += kLanes) {
    Vec columns[6][4];  // [x][y] after the vertical step
    for (int x = 0; x < 6; ++x) {
      Vec column[6];
      for (int y = 0; y < 6; ++y) column[y] = load(m + (y * 6 + x) * position_stride + half);
      output_step(column, columns[x]);
    }
    const Vec shift = load(bias + half);
    for (int y = 0; y < 4; ++y) {
      const std::int64_t at_y = 4 * tile_y + y;
      if (at_y >= height) break;
      const Vec row[6] = {columns[0][y], columns[1][y], columns[2][y],
                          columns[3][y], columns[4][y], columns[5][y]};
      Vec out[4];
      output_step(row, out);
      for (int x = 0; x < 4; ++x) {
        const std::int64_t at_x = 4 * tile_x + x;
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
      weight_step(taps, out);
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
    input_step(taps, out);
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
    output_step(values, out);
    const Vec shift = load(bias + half);
    for (int i = 0; i < 4 && 4 * tile + i < frames; ++i) {
      const std::int64_t at = (4 * tile + i) * frame_stride + half;
      Vec value = out[i] + shift;
      if (residual != nullptr) value += load(residual + at);
      store(sequence + at, value);
    }
  }
}

template <typename T>
constexpr WinogradTransforms<T> transforms() {
  return {transform_weights<T>, transform_input<T>, transform_output<T>};
}

}  // namespace

#define NORMALCRAFTER_NAME2(isa) winograd_##isa
#define NORMALCRAFTER_NAME(isa) NORMALCRAFTER_NAME2(isa)

extern const WinogradKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA);
constinit const WinogradKernels NORMALCRAFTER_NAME(NORMALCRAFTER_ISA) = {
    kLanes,
    kPanel,
    transforms<float>(),
    transforms<BFloat16Bits>(),
    {transform_temporal_weights, transform_temporal_input, transform_temporal_output}};

}  // namespace normalcrafter::cpu
