#include "resume_plan.h"

#include <algorithm>
#include <numeric>

namespace normalcrafter::convert {

ResumePlan plan_resume(std::int64_t done, const Windows& windows, int warm_up) {
  const std::int64_t unit = std::lcm<std::int64_t>(windows.step, windows.decode_chunk);
  const std::int64_t needed =
      std::max<std::int64_t>(std::int64_t{warm_up} * windows.step, windows.window);
  const std::int64_t sure = std::max<std::int64_t>(done - windows.window - windows.decode_chunk, 0);
  const std::int64_t skip = std::max<std::int64_t>(sure - needed, 0) / unit * unit;
  return {skip, sure - skip};
}

}  // namespace normalcrafter::convert
