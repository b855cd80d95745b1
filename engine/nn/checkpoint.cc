#include "nn/checkpoint.h"

#include "normalcrafter/error.h"

namespace normalcrafter {

void Checkpoint::check() const {
  if (cancelled()) throw Error(ErrorCode::Cancelled, "cancelled");
}

}  // namespace normalcrafter
