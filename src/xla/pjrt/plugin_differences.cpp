// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/plugin_differences.h"

#include <cstdlib>
#include <filesystem>

#include "base/str_cat.h"

namespace accelerate::xla {
namespace {

struct RequiredFlag {
  PluginKind kind;
  std::string name;
  std::string value;
};

// With XNNPACK, the CPU plugin keeps packed weights by address. After a weight
// has been donated, another program that reads the buffer gets the old weights:
// the gradients are silently wrong.
const RequiredFlag kRequiredFlags[] = {
    {PluginKind::cpu, "--xla_cpu_use_xnnpack", "false"},
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

PluginKind plugin_kind(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  if (contains(name, "cpu")) {
    return PluginKind::cpu;
  }
  if (contains(name, "cuda")) {
    return PluginKind::cuda;
  }
  return contains(name, "tpu") ? PluginKind::tpu : PluginKind::other;
}

std::vector<ClientOption> client_options(
    PluginKind kind, std::int64_t device_count) {
  if (kind == PluginKind::cpu) {
    return {{"cpu_device_count", device_count}};
  }
  return {};
}

std::string xla_flags() {
  const char* flags = std::getenv("XLA_FLAGS");
  return flags != nullptr ? flags : "";
}

void prepare_environment(PluginKind kind) {
  // Warnings and errors only: XLA otherwise logs a line for every compilation.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);
  std::string flags = xla_flags();
  for (const RequiredFlag& flag : kRequiredFlags) {
    if (flag.kind == kind && !contains(flags, flag.name + "=")) {
      flags =
          str_cat(flags, flags.empty() ? "" : " ", flag.name, "=", flag.value);
    }
  }
  if (!flags.empty()) {
    setenv("XLA_FLAGS", flags.c_str(), 1);
  }
}

}  // namespace accelerate::xla
