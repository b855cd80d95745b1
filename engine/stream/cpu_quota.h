// What a container may use of the machine's processors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace normalcrafter {

/// Processors' worth of time in cgroup v2's `cpu.max` ("150000 100000": 1.5). Nothing for "max" and
/// for text of another form.
std::optional<double> parse_cpu_max(const std::string& text);

/// The control groups that limit processor time, in the text of /proc/PID/cgroup.
struct CpuGroups {
  std::optional<std::string> unified;  ///< cgroup v2's path: "/" or "/a/b"
  std::optional<std::string> cpu;      ///< path in cgroup v1's hierarchy of the controller cpu
};
CpuGroups parse_cgroups(const std::string& text);

/// "/a/b" -> "/a/b", "/a", "/": a limit on a group holds for the groups in it.
std::vector<std::string> with_ancestors(const std::string& group);

/// The smallest limit on this process, in processors; nothing if there is none. `groups` is the
/// file that names the process's groups, `mounted` the folder with the hierarchies. Groups that are
/// not there are passed over: a container often sees the host's names and only its own part of the
/// tree.
std::optional<double> cpu_quota(const std::filesystem::path& groups = "/proc/self/cgroup",
                                const std::filesystem::path& mounted = "/sys/fs/cgroup");

}  // namespace normalcrafter
