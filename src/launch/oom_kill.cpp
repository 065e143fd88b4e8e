// SPDX-License-Identifier: Apache-2.0
#include "launch/oom_kill.h"

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

std::string slurp(const std::string& path) {
  try {
    return read_file(path, std::size_t{1} << 20);
  } catch (const Error&) {
    return {};
  }
}

// Returns the number after `oom_kill` in a text of "name number" lines.
std::optional<std::int64_t> oom_kills(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const auto fields = split(line, ' ');
    if (fields.size() == 2 && fields[0] == "oom_kill") {
      return parse_integer(fields[1]);
    }
  }
  return std::nullopt;
}

// The memory event file of this process's cgroup. cgroup version 2 has one
// hierarchy ("0::/path"), and version 1 has one hierarchy per controller
// ("9:memory:/path").
std::string cgroup_file(const std::string& root) {
  for (const std::string& line :
       split(slurp(root + "/proc/self/cgroup"), '\n')) {
    if (line.starts_with("0::")) {
      const std::string path =
          str_cat(root, "/sys/fs/cgroup", line.substr(3), "/memory.events");
      if (oom_kills(slurp(path))) {
        return path;
      }
    }
    const auto parts = split(line, ':');
    if (parts.size() == 3 && parts[1] == "memory") {
      const std::string path = str_cat(
          root, "/sys/fs/cgroup/memory", parts[2], "/memory.oom_control");
      if (oom_kills(slurp(path))) {
        return path;
      }
    }
  }
  return {};
}

}  // namespace

OomKillMonitor::OomKillMonitor(const std::string& root)
    : root_(root), before_(count()) {
}

std::optional<std::int64_t> OomKillMonitor::count() const {
  // Reads both counters, because a kill in a cgroup below this one is counted
  // only for the whole system.
  const auto system = oom_kills(slurp(root_ + "/proc/vmstat"));
  const std::string path = cgroup_file(root_);
  const auto cgroup = path.empty() ? std::nullopt : oom_kills(slurp(path));
  if (!system && !cgroup) {
    return std::nullopt;
  }
  return system.value_or(0) + cgroup.value_or(0);
}

std::optional<bool> OomKillMonitor::happened() const {
  const auto now = count();
  if (!before_ || !now) {
    return std::nullopt;
  }
  return *now > *before_;
}

}  // namespace accelerate
