// SPDX-License-Identifier: Apache-2.0
// Names of backends and reductions, and the checks of `GroupOptions`.
#include <algorithm>
#include <array>
#include <utility>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "base/network_interfaces.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

constexpr std::array<std::pair<std::string_view, Backend>, 5> kBackends = {{
    {"shm", Backend::shm},
    {"gloo", Backend::gloo},
    {"nccl", Backend::nccl},
    {"mpi", Backend::mpi},
    {"fake", Backend::fake},
}};

constexpr std::array<std::pair<std::string_view, Reduction>, 4> kReductions = {{
    {"sum", Reduction::sum},
    {"mean", Reduction::mean},
    {"max", Reduction::max},
    {"min", Reduction::min},
}};

template <typename Table>
auto parse(std::string_view kind, std::string_view text, const Table& table) {
  std::string choices;
  for (const auto& [name, value] : table) {
    if (name == text) {
      return value;
    }
    choices += str_cat(choices.empty() ? "" : ", ", name);
  }
  throw ArgumentError(
      str_cat("the ", kind, " is `", text, "`, but must be one of ", choices),
      str_cat("pass one of ", choices));
}

template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value wanted) {
  for (const auto& [name, value] : table) {
    if (value == wanted) {
      return name;
    }
  }
  throw InternalError("an enum value has no name");
}

void check_positive(
    const char* name,
    std::chrono::milliseconds value,
    const char* default_value) {
  if (value.count() <= 0) {
    throw ArgumentError(
        str_cat(name, " is ", value.count(), " ms, but must be positive"),
        str_cat("pass 1 ms or more, or leave it out to use ", default_value));
  }
}

void check_interface(const GroupOptions& options) {
  const auto all = network_interfaces();
  if (options.network_interface &&
      std::find(all.begin(), all.end(), *options.network_interface) ==
          all.end()) {
    throw ArgumentError(
        str_cat(
            "network_interface is `",
            *options.network_interface,
            "`, but must be one of ",
            join(all, ", ")),
        "pass one of the existing interfaces, or leave it out");
  }
}

}  // namespace

void check_group_options(const GroupOptions& options) {
  check_positive("timeout", options.timeout, "600 s");
  check_interface(options);
  if (!options.warn_after) {
    return;
  }
  check_positive("warn_after", *options.warn_after, "30 s");
  if (*options.warn_after > options.timeout) {
    throw ArgumentError(
        str_cat(
            "warn_after is ",
            options.warn_after->count(),
            " ms, but timeout is ",
            options.timeout.count(),
            " ms, so the warning would never appear"),
        str_cat(
            "pass a warn_after of at most ",
            options.timeout.count(),
            " ms, or leave it out"));
  }
}

Backend parse_backend(std::string_view name) {
  return parse("backend", name, kBackends);
}

std::string_view name_of(Backend backend) {
  return name_in(kBackends, backend);
}

Reduction parse_reduction(std::string_view name) {
  return parse("reduction", name, kReductions);
}

std::string_view name_of(Reduction reduction) {
  return name_in(kReductions, reduction);
}

}  // namespace accelerate
