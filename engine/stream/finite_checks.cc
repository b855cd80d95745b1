#include "stream/finite_checks.h"

#include <cmath>
#include <utility>

#include "normalcrafter/error.h"

namespace normalcrafter {

void FiniteChecks::add(const at::Tensor& values, std::string what) {
  const auto [least, most] = at::aminmax(values);
  waiting_.push_back({at::stack({least, most}).to(at::kFloat), std::move(what)});
  if (!deferred_) settle();
}

void FiniteChecks::settle() {
  if (waiting_.empty()) return;
  const std::vector<Extremes> settled = std::exchange(waiting_, {});
  std::vector<at::Tensor> all;
  for (const Extremes& extremes : settled) all.push_back(extremes.values);
  const at::Tensor values = at::stack(all).cpu();
  const float* const value = values.const_data_ptr<float>();
  for (std::size_t i = 0; i < settled.size(); ++i) {
    if (std::isfinite(value[2 * i]) && std::isfinite(value[2 * i + 1])) continue;
    throw Error(
        ErrorCode::NonFinite,
        settled[i].what + "; try dtype float32; if it is that already, check the model's weights");
  }
}

}  // namespace normalcrafter
