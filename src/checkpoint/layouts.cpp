// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/layouts.h"

#include <map>
#include <optional>
#include <set>
#include <string>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "checkpoint_directory/checksum.h"

namespace accelerate {
namespace {

// The first key whose tensors differ between ranks.
std::optional<std::string> differing_key(const std::vector<Json>& checksums) {
  std::map<std::string, std::multiset<std::string>> by_key;
  for (const Json& of_rank : checksums) {
    for (const auto& [key, checksum] : of_rank.as_object()) {
      by_key[key].insert(checksum.as_string());
    }
  }
  for (const auto& [key, of_ranks] : by_key) {
    if (of_ranks.count(*of_ranks.begin()) != checksums.size()) {
      return key;
    }
  }
  return std::nullopt;
}

// Null if this rank does not have the key.
Json layout_in(const Part& part, const std::string& key) {
  const auto found = part.layouts.find(key);
  if (found == part.layouts.end()) {
    return {};
  }
  Json layout = Json::object();
  for (const auto& [name, type] : found->second) {
    layout[name] = type;
  }
  return layout;
}

void add_names(std::set<std::string>& names, const Json& layout) {
  if (layout.is_object()) {
    for (const auto& [name, type] : layout.as_object()) {
      names.insert(name);
    }
  }
}

std::string type_in(const Json& layout, const std::string& name) {
  const Json* type = layout.is_object() ? layout.find(name) : nullptr;
  return type == nullptr ? "missing" : type->as_string();
}

// Describes a difference in `key` between rank 0 and another rank; empty if
// there is none.
std::string difference(
    const std::string& key,
    const Json& first,
    const Json& other,
    const std::size_t rank) {
  std::set<std::string> names;
  add_names(names, first);
  add_names(names, other);
  for (const std::string& name : names) {
    const std::string here = type_in(first, name);
    if (const std::string there = type_in(other, name); here != there) {
      return str_cat(
          "tensor `",
          name,
          "` is ",
          here,
          " on rank 0, but ",
          there,
          " on rank ",
          rank);
    }
  }
  if (first.is_null() == other.is_null()) {
    return "";
  }
  return str_cat(
      "rank ",
      first.is_null() ? rank : 0,
      " has `",
      key,
      "` without any tensors, but rank ",
      first.is_null() ? 0 : rank,
      " does not have `",
      key,
      "`");
}

}  // namespace

Json layout_checksums(const Part& part) {
  Json checksums = Json::object();
  for (const auto& [key, layout] : part.layouts) {
    std::string text;
    for (const auto& [name, type] : layout) {
      text += str_cat(name, " ", type, "\n");
    }
    checksums[key] = checksum_of(text);
  }
  return checksums;
}

void check_layouts(
    const std::vector<Json>& checksums,
    const Part& part,
    const Group& group,
    const std::filesystem::path& target) {
  const auto key = differing_key(checksums);
  if (!key) {
    return;
  }
  const std::vector<Json> layouts =
      group.gather_object({layout_in(part, *key)});
  std::string found;
  for (std::size_t rank = 1; rank < layouts.size() && found.empty(); ++rank) {
    found = difference(*key, layouts.front(), layouts[rank], rank);
  }
  throw StateError(
      str_cat(
          "cannot save a checkpoint to ",
          target.string(),
          ": processes have different tensors in `",
          *key,
          "`: ",
          found),
      "prepare the same models and optimizers with the same trainable "
      "parameters on every process");
}

}  // namespace accelerate
