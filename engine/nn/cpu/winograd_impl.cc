// Compiled several times, like kernels_impl.cc: the pieces of Winograd's convolutions in float32 on
// channels-last data. A vector holds consecutive channels.
//
// The method is that of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
#include "nn/cpu/winograd.h"

#include "nn/cpu/vectors.h"

namespace normalcrafter::cpu {
namespace {

// The points of interpolation are 0, infinity, and so many pairs p, -p.
template <int kPairs>
struct Points;

// Lavin and Gray take 1 and 2; these leave less than half of their rounding error (Barabasz et al.,
// "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks",
// 2020, on the choice).
template <>
struct Points<2> {
  static constexpr float kPositive[] = {0.75F, 1.5F};
};
// Four times that error, which is still little against the rounding of bfloat16.
template <>
struct Points<3> {
  static constexpr float kPositive[] = {0.5F, 1.0F, 2.0F};
};
// Sixteen times, and the least of all choices among multiples of 1/8.
template <>
struct Points<4> {
  static constexpr float kPositive[] = {0.375F, 0.75F, 1.25F, 2.5F};
};

// The steps in one dimension, for tiles of so many outputs, an even number.
template <int kTile>
struct Steps {
  static constexpr int kPairs = kTile / 2;
  static constexpr int kPatch = kTile + 2;
  static constexpr const float* kPositive = Points<kPairs>::kPositive;

  // A polynomial in x^2, the highest power first.
  struct Coefficients {
    float of[kPairs + 1] = {1};
  };
  // The product of x^2 - p^2 over all p but the one of that number; -1: over all.
  static constexpr Coefficients product_without(int number) {
    Coefficients product;
    for (int i = 0; i < kPairs; ++i) {
      if (i == number) continue;
      const float square = kPositive[i] * kPositive[i];
      for (int k = kPairs; k > 0; --k) product.of[k] -= square * product.of[k - 1];
    }
    return product;
  }
  // The weights' factor at p and -p: 1 over the product of the differences to all other points.
  static constexpr float weight_factor(int number) {
    const float square = kPositive[number] * kPositive[number];
    float differences = 2 * square;
    for (int i = 0; i < kPairs; ++i)
      if (i != number) differences *= square - kPositive[i] * kPositive[i];
    return 1 / differences;
  }

  // The polynomial's terms of `count` elements, of which `highest` belongs to the highest power.
  // The lowest is summed first, and in output() the value at zero: the terms cancel, and float32
  // loses least in this order.
  template <int kNumber, int kCount>
  static Vec applied(const Vec* highest) {
    constexpr Coefficients kCoefficients = product_without(kNumber);
    Vec sum = kCoefficients.of[kCount - 1] * highest[-2 * (kCount - 1)];
#pragma GCC unroll 5
    for (int k = kCount - 2; k > 0; --k) sum += kCoefficients.of[k] * highest[-2 * k];
    return sum + highest[0];
  }
  template <int kNumber>
  static void input_pair(const Vec d[kPatch], Vec out[kPatch]) {
    const Vec even = applied<kNumber, kPairs>(d + kTile);
    const Vec odd = kPositive[kNumber] * applied<kNumber, kPairs>(d + kTile - 1);
    out[1 + 2 * kNumber] = even + odd;
    out[2 + 2 * kNumber] = even - odd;
  }
  // B^T d.
  static void input(const Vec d[kPatch], Vec out[kPatch]) {
    out[0] = applied<-1, kPairs + 1>(d + kTile);
    input_pair<0>(d, out);
    input_pair<1>(d, out);
    if constexpr (kPairs > 2) input_pair<2>(d, out);
    if constexpr (kPairs > 3) input_pair<3>(d, out);
    out[kPatch - 1] = applied<-1, kPairs + 1>(d + kTile + 1);
  }

  // A^T m.
  static void output(const Vec m[kPatch], Vec out[kTile]) {
    Vec terms[2][kPairs];  // of even and of odd powers
    float powers[kPairs];
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
      terms[0][i] = m[1 + 2 * i] + m[2 + 2 * i];
      terms[1][i] = m[1 + 2 * i] - m[2 + 2 * i];
      powers[i] = 1;
    }
#pragma GCC unroll 8
    for (int power = 0; power < kTile; ++power) {
      Vec sum = power == 0 ? m[0] + terms[0][0] : powers[0] * terms[power % 2][0];
#pragma GCC unroll 4
      for (int i = 1; i < kPairs; ++i) sum += powers[i] * terms[power % 2][i];
#pragma GCC unroll 4
      for (int i = 0; i < kPairs; ++i) powers[i] *= kPositive[i];
      out[power] = sum;
    }
    out[kTile - 1] += m[kPatch - 1];
  }

  template <int kNumber>
  static void weight_pair(const Vec g[3], Vec out[kPatch]) {
    constexpr float kPoint = kPositive[kNumber];
    constexpr float kFactor = weight_factor(kNumber);
    const Vec even = (g[0] + kPoint * kPoint * g[2]) * kFactor;
    const Vec odd = g[1] * (kPoint * kFactor);
    out[1 + 2 * kNumber] = even + odd;
    out[2 + 2 * kNumber] = even - odd;
  }
  // G g.
  static void weight(const Vec g[3], Vec out[kPatch]) {
    constexpr float kAtZero = 1 / product_without(-1).of[kPairs];
    out[0] = g[0] * kAtZero;
    weight_pair<0>(g, out);
    weight_pair<1>(g, out);
    if constexpr (kPairs > 2) weight_pair<2>(g, out);
    if constexpr (kPairs > 3) weight_pair<3>(g, out);
    out[kPatch - 1] = g[2];
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
constexpr WinogradTransforms<T, kTile> transforms() {
  return {transform_weights<T, kTile>, transform_input<T, kTile>, transform_output<T, kTile>};
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
    transforms<BFloat16Bits, 8>(),
    {transform_temporal_weights, transform_temporal_input, transform_temporal_output}};

}  // namespace normalcrafter::cpu
