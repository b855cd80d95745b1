#include "stream/physical_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "stream/cpu_quota.h"

namespace normalcrafter {
namespace {

// Containers may hide the topology: a CPU without it counts as a core of its own.
std::pair<int, int> core_of(int cpu) {
  const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
  int package = 0;
  int core = 0;
  if (std::ifstream(topology + "physical_package_id") >> package &&
      std::ifstream(topology + "core_id") >> core)
    return {package, core};
  return {-1, cpu};
}

}  // namespace

int physical_cores() {
  constexpr int kMaxCpus = 1 << 16;
  cpu_set_t* allowed = CPU_ALLOC(kMaxCpus);
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  std::set<std::pair<int, int>> cores;
  if (allowed != nullptr && sched_getaffinity(0, bytes, allowed) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, allowed)) cores.insert(core_of(cpu));
  }
  if (allowed != nullptr) CPU_FREE(allowed);
  const auto count = cores.empty() ? std::thread::hardware_concurrency() : cores.size();
  return threads_for(static_cast<int>(count), cpu_quota());
}

int threads_for(int cores, std::optional<double> quota) {
  // Rounded up: the last thread uses what is left of the quota.
  if (quota && *quota < cores) cores = static_cast<int>(std::ceil(*quota));
  return std::max(1, cores);
}

}  // namespace normalcrafter
