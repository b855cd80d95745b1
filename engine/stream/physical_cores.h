// How many threads are worth starting.
#pragma once

#include <optional>

namespace normalcrafter {

/// Physical cores that the calling thread may run on; at least 1. Hyper-threads of one core count
/// once: they share the arithmetic units that the networks keep busy. No more than the process's
/// control groups give it the time of.
int physical_cores();

/// Of `cores`, those that a quota of processor time keeps busy; at least 1.
int threads_for(int cores, std::optional<double> quota);

}  // namespace normalcrafter
