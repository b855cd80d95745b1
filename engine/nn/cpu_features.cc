#include "nn/cpu_features.h"

#include <ATen/core/ivalue.h>
#include <ATen/cpu/Utils.h>

#include <initializer_list>

namespace normalcrafter {
namespace {

bool has_any(std::initializer_list<const char*> names) {
  const auto capabilities = at::cpu::get_cpu_capabilities();
  for (const char* name : names) {
    const auto found = capabilities.find(name);
    if (found != capabilities.end() && found->second.toBool()) return true;
  }
  return false;
}

}  // namespace

bool cpu_has_bfloat16() {
  static const bool has = has_any({"avx512_bf16", "amx_bf16", "bf16"});
  return has;
}

bool cpu_has_bfloat16_matrix_units() {
  static const bool has = has_any({"amx_bf16"});
  return has;
}

}  // namespace normalcrafter
