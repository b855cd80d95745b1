// How many threads are worth starting.
#pragma once

namespace normalcrafter {

/// Physical cores that the calling thread may run on; at least 1. Hyper-threads of one core count
/// once: they share the arithmetic units that the networks keep busy.
int physical_cores();

}  // namespace normalcrafter
