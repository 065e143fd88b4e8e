// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writing_groups.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace accelerate {

WritingGroups make_writing_groups(
    const PartialState& state, const bool on_each_node) {
  std::vector<int> ranks;
  const Group& world = state.group();
  if (world.size() == 1) {
    return Group();
  }
  std::vector<Json> nodes = world.gather_object(
      {Json(on_each_node ? state.node_index() : std::int64_t{0})});
  std::optional<Group> node_group;
  std::vector<std::int64_t> seen;
  for (const Json& node : nodes) {
    const auto index = node.as_integer();
    if (std::find(seen.begin(), seen.end(), index) != seen.end()) {
      continue;
    }
    seen.push_back(index);
    ranks.clear();
    for (int rank = 0; rank < world.size(); ++rank) {
      if (nodes[static_cast<std::size_t>(rank)].as_integer() == index) {
        ranks.push_back(rank);
      }
    }
    if (auto group = world.subgroup(ranks)) {
      node_group = std::move(group);
    }
  }
  if (seen.size() == 1) {
    return *node_group;
  }
  ranks.resize(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {*node_group, *world.subgroup(ranks)};
}

}  // namespace accelerate
