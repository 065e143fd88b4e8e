// SPDX-License-Identifier: Apache-2.0
#include "state/mesh.h"

#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr const char* kReplicate = "replicate";

}  // namespace

Mesh::Mesh(Group world, std::int64_t devices_per_rank)
    : world_(std::move(world)),
      devices_per_rank_(devices_per_rank),
      axes_{{kReplicate, world_.size(), world_.rank()}} {
}

const Mesh::Axis& Mesh::axis(const std::string& name) const {
  const auto found = std::ranges::find(axes_, name, &Axis::name);
  if (found == axes_.end()) {
    std::string names;
    for (const Axis& known : axes_) {
      names += str_cat(names.empty() ? "" : ", ", "`", known.name, "`");
    }
    throw ArgumentError(
        str_cat("the mesh has no axis `", name, "`"),
        str_cat("use one of its axes: ", names));
  }
  return *found;
}

int Mesh::data_rank() const {
  return axis(kReplicate).rank;
}

int Mesh::data_size() const {
  return axis(kReplicate).size;
}

std::int64_t Mesh::data_parallel_size() const {
  return data_size() * devices_per_rank_;
}

}  // namespace accelerate
