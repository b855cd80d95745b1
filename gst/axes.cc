#include "axes.h"

namespace normalcrafter {
namespace {

struct Convention {
  const char* name;
  Axes axes;
  bool y_down;
  bool z_away;
};

constexpr Convention kConventions[] = {
    {"opengl", Axes::OpenGl, false, false},
    {"directx", Axes::DirectX, true, false},
    {"opencv", Axes::OpenCv, true, true},
};

}  // namespace

std::optional<Flips> flips_between(const std::string& model, Axes wanted) {
  if (wanted == Axes::Model) return Flips{};
  const Convention* from = nullptr;
  const Convention* to = nullptr;
  for (const Convention& convention : kConventions) {
    if (model == convention.name) from = &convention;
    if (wanted == convention.axes) to = &convention;
  }
  if (from == nullptr || to == nullptr) return std::nullopt;
  return Flips{false, from->y_down != to->y_down, from->z_away != to->z_away};
}

}  // namespace normalcrafter
