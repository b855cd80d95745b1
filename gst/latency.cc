#include "latency.h"

#include <algorithm>
#include <numeric>

namespace normalcrafter {
namespace {

constexpr GstClockTime kLongest = G_MAXINT64 / 4;

/// Number of the frame whose arrival makes `frame` final.
long final_at(long frame, const SessionOptions& options) {
  const long step = options.step_size;
  const long window =
      options.tail_mode == TailMode::Repeat ? frame / step : (frame + step - 1) / step;
  const long last_window_of_round =
      (window / options.windows_per_pass + 1) * options.windows_per_pass - 1;
  return last_window_of_round * step + options.window_size - 1;
}

}  // namespace

int frames_held(const SessionOptions& options) {
  if (options.step_size < 1 || options.windows_per_pass < 1 || options.vae_decode_chunk_size < 1) {
    return 0;
  }
  const long chunk = options.vae_decode_chunk_size;
  const long round = static_cast<long>(options.step_size) * options.windows_per_pass;
  // The pattern repeats after the least common multiple; unusual options are bounded instead.
  const long period = std::min(std::lcm(chunk, round), 100000L);
  long held = 0;
  for (long first = 0; first < period; first += chunk) {
    held = std::max(held, final_at(first + chunk - 1, options) - first);
  }
  return static_cast<int>(held);
}

GstClockTime saturated_sum(GstClockTime a, GstClockTime b) {
  return std::min(a, kLongest) + std::min(b, kLongest);
}

GstClockTime saturated_product(guint64 count, GstClockTime each) {
  return count != 0 && each > kLongest / count ? kLongest : count * each;
}

}  // namespace normalcrafter
