// SPDX-License-Identifier: Apache-2.0
#include "parallel/model_sync.h"

#include <algorithm>
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// More lines would only make the message harder to read.
constexpr std::size_t kShown = 10;

Json describe(const NamedTensors& tensors, bool is_trainable) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors.tensors[i];
    lines.push_back(str_cat(
        tensors.names[i],
        " ",
        c10::toString(tensor.scalar_type()),
        tensor.sizes(),
        is_trainable && !tensor.requires_grad() ? " frozen" : ""));
  }
  return Json(lines);
}

std::string line_or_nothing(const Json& lines, std::size_t index) {
  return index < lines.size() ? lines.at(index).as_string() : "nothing";
}

// One line for each difference between rank 0 and `rank`.
std::vector<std::string> differences(
    const std::string& kind,
    const Json& first,
    const Json& other,
    std::size_t rank) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    const std::string a = line_or_nothing(first, i);
    const std::string b = line_or_nothing(other, i);
    if (a != b) {
      lines.push_back(str_cat(
          "\n  ",
          kind,
          " ",
          i,
          ": rank 0 has ",
          a,
          ", rank ",
          rank,
          " has ",
          b));
    }
  }
  return lines;
}

}  // namespace

NamedTensors without_repeats(const NamedTensors& tensors) {
  NamedTensors result;
  std::set<const void*> seen;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (seen.insert(tensors.tensors[i].unsafeGetTensorImpl()).second) {
      result.names.push_back(tensors.names[i]);
      result.tensors.push_back(tensors.tensors[i]);
    }
  }
  return result;
}

NamedTensors trainable(const NamedTensors& tensors) {
  NamedTensors result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors.tensors[i].requires_grad()) {
      result.names.push_back(tensors.names[i]);
      result.tensors.push_back(tensors.tensors[i]);
    }
  }
  return result;
}

void check_same_model(
    const Group& group,
    const NamedTensors& parameters,
    const NamedTensors& buffers) {
  const auto all_ranks = group.gather_object({Json::object(
      {{"parameter", describe(parameters, true)},
       {"buffer", describe(buffers, false)}})});
  const Json& first = all_ranks.front();
  for (std::size_t rank = 1; rank < all_ranks.size(); ++rank) {
    const Json& other = all_ranks[rank];
    if (other == first) {
      continue;
    }
    std::vector<std::string> lines;
    for (const std::string kind : {"parameter", "buffer"}) {
      for (std::string& line :
           differences(kind, first.at(kind), other.at(kind), rank)) {
        lines.push_back(std::move(line));
      }
    }
    std::string table;
    for (std::size_t i = 0; i < std::min(lines.size(), kShown); ++i) {
      table += lines[i];
    }
    if (lines.size() > kShown) {
      table += str_cat("\n  … and ", lines.size() - kShown, " more");
    }
    throw MismatchError(
        str_cat("the ranks have different models", table),
        "build the model the same way on every rank, with the same options");
  }
}

}  // namespace accelerate
