// Which way the vectors' components point, and how to get from one convention to another.
#pragma once

#include <optional>
#include <string>

namespace normalcrafter {

/// Axes seen by the camera. x points right in all of them.
enum class Axes {
  Model,    ///< as the model has it
  OpenGl,   ///< y up, z towards the viewer
  DirectX,  ///< y down, z towards the viewer
  OpenCv,   ///< y down, z away from the viewer
};

/// Components to negate.
struct Flips {
  bool x = false;
  bool y = false;
  bool z = false;
  friend bool operator==(const Flips&, const Flips&) = default;
};

/// What takes vectors of the convention that a model states ("opengl", "directx" or "opencv", in
/// normalcrafter.json) to the one wanted. Nothing if the model states none, or one not known here.
std::optional<Flips> flips_between(const std::string& model, Axes wanted);

}  // namespace normalcrafter
