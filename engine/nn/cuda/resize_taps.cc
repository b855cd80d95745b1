#include "nn/cuda/resize_taps.h"

#include <algorithm>
#include <cmath>

namespace normalcrafter::cuda {
namespace {

double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  return 0;
}

}  // namespace

ResizeTaps resize_taps(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double widening = std::max(scale, 1.0);
  const double support = 2 * widening;
  ResizeTaps taps;
  taps.count = static_cast<int>(std::ceil(support)) * 2 + 1;
  taps.first.resize(to);
  taps.weights.resize(static_cast<std::size_t>(to) * taps.count);
  for (int i = 0; i < to; ++i) {
    const double center = scale * (i + 0.5);
    const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), from);
    taps.first[i] = begin;
    float* const weights = taps.weights.data() + static_cast<std::size_t>(i) * taps.count;
    double sum = 0;
    for (int j = begin; j < end; ++j) sum += cubic((j - center + 0.5) / widening);
    for (int j = begin; j < end; ++j)
      weights[j - begin] = static_cast<float>(cubic((j - center + 0.5) / widening) / sum);
  }
  return taps;
}

}  // namespace normalcrafter::cuda
