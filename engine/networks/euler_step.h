// EulerDiscreteScheduler, v-prediction, a single step from sigma to 0.
#pragma once

#include <ATen/ATen.h>

namespace normalcrafter {

/// scale_model_input: z / sqrt(sigma^2 + 1).
at::Tensor euler_scale_input(const at::Tensor& z, double sigma);

/// step: v * (-sigma / sqrt(sigma^2 + 1)) + z / (sigma^2 + 1), computed in float32 and returned in
/// z's dtype, as the scheduler does.
at::Tensor euler_step(const at::Tensor& v, const at::Tensor& z, double sigma);

}  // namespace normalcrafter
