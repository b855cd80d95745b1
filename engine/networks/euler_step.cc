#include "networks/euler_step.h"

#include <cmath>

namespace normalcrafter {

at::Tensor euler_scale_input(const at::Tensor& z, double sigma) {
  return z / std::sqrt(sigma * sigma + 1);
}

at::Tensor euler_step(const at::Tensor& v, const at::Tensor& z, double sigma) {
  const double variance = sigma * sigma + 1;
  return (v.to(at::kFloat) * (-sigma / std::sqrt(variance)) + z.to(at::kFloat) / variance)
      .to(z.scalar_type());
}

}  // namespace normalcrafter
