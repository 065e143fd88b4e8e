// SPDX-License-Identifier: Apache-2.0
// What users type: the words for backends and reductions, and options.
#include <array>
#include <utility>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr std::array<std::pair<std::string_view, Backend>, 4> kBackends = {{
    {"shm", Backend::shm},
    {"gloo", Backend::gloo},
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
auto parse(std::string_view what, std::string_view text, const Table& table) {
  std::string choices;
  for (const auto& [name, value] : table) {
    if (name == text) {
      return value;
    }
    choices += str_cat(choices.empty() ? "" : ", ", name);
  }
  throw ArgumentError(
      str_cat(what, " `", text, "` is not one of ", choices),
      str_cat("pass one of ", choices));
}

template <typename Table, typename Value>
std::string_view name_in(const Table& table, Value wanted) {
  for (const auto& [name, value] : table) {
    if (value == wanted) {
      return name;
    }
  }
  throw InternalError("a value without a name");
}

}  // namespace

void check_group_options(const GroupOptions& options) {
  if (options.timeout.count() <= 0 || options.warn_after.count() <= 0) {
    throw ArgumentError(
        str_cat(
            "timeout and warn_after must be positive, got ",
            options.timeout.count(),
            " ms and ",
            options.warn_after.count(),
            " ms"),
        "leave them out for 600 s and 30 s");
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
