#include "normalcrafter/session.h"

namespace normalcrafter {

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::Load:
      return "load";
    case Stage::Clip:
      return "clip";
    case Stage::Encode:
      return "encode";
    case Stage::Unet:
      return "unet";
    case Stage::Decode:
      return "decode";
  }
  return "";
}

}  // namespace normalcrafter
