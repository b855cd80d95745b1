#include "stream/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace normalcrafter {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<double> ratio(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

/// cgroup v1 writes a quota of -1 where there is none.
std::optional<double> version_1_quota(const std::filesystem::path& group) {
  double quota = 0;
  double period = 0;
  std::istringstream(content(group / "cpu.cfs_quota_us")) >> quota;
  std::istringstream(content(group / "cpu.cfs_period_us")) >> period;
  return ratio(quota, period);
}

bool has_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');)
    if (name == "cpu") return true;
  return false;
}

}  // namespace

std::optional<double> parse_cpu_max(const std::string& text) {
  std::istringstream words(text);
  double quota = 0;
  double period = 0;
  if (!(words >> quota >> period)) return std::nullopt;
  return ratio(quota, period);
}

CpuGroups parse_cgroups(const std::string& text) {
  CpuGroups groups;
  std::istringstream lines(text);
  // HIERARCHY:CONTROLLERS:PATH; the path may hold colons.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    if (line.substr(0, second + 1) == "0::") groups.unified = path;
    if (has_cpu(line.substr(first + 1, second - first - 1))) groups.cpu = path;
  }
  return groups;
}

std::vector<std::string> with_ancestors(const std::string& group) {
  std::vector<std::string> result;
  for (std::string at = group; at.size() > 1; at.resize(at.rfind('/'))) {
    if (at[0] != '/') break;
    result.push_back(at);
  }
  result.emplace_back("/");
  return result;
}

std::optional<double> cpu_quota(const std::filesystem::path& groups,
                                const std::filesystem::path& mounted) {
  const CpuGroups own = parse_cgroups(content(groups));
  std::optional<double> least;
  const auto limit = [&least](std::optional<double> quota) {
    if (quota) least = std::min(*quota, least.value_or(*quota));
  };
  for (const auto& group : with_ancestors(own.unified.value_or("/")))
    limit(parse_cpu_max(content(mounted / group.substr(1) / "cpu.max")));
  for (const auto& group : with_ancestors(own.cpu.value_or("/")))
    limit(version_1_quota(mounted / "cpu" / group.substr(1)));
  return least;
}

}  // namespace normalcrafter
