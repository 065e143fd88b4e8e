// SPDX-License-Identifier: Apache-2.0
#include "parallel/model_sync.h"

#include <algorithm>
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

// More lines than this hide what happened instead of showing it.
constexpr std::size_t kShown = 10;

std::vector<std::string> describe(const NamedTensors& parameters) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters.tensors[i];
    lines.push_back(str_cat(
        parameters.names[i],
        " ",
        c10::toString(tensor.scalar_type()),
        tensor.sizes(),
        tensor.requires_grad() ? "" : " frozen"));
  }
  return lines;
}

std::string line_or_nothing(const Json& lines, std::size_t index) {
  return index < lines.size() ? lines.at(index).as_string() : "nothing";
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

void check_same_model(const Group& group, const NamedTensors& parameters) {
  const auto everybody = group.gather_object({Json(describe(parameters))});
  const Json& first = everybody.front();
  for (std::size_t rank = 1; rank < everybody.size(); ++rank) {
    const Json& other = everybody[rank];
    if (other == first) {
      continue;
    }
    std::string table;
    std::size_t different = 0;
    for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string a = line_or_nothing(first, i);
      const std::string b = line_or_nothing(other, i);
      if (a != b && ++different <= kShown) {
        table += str_cat(
            "\n  parameter ",
            i,
            ": rank 0 has ",
            a,
            ", rank ",
            rank,
            " has ",
            b);
      }
    }
    if (different > kShown) {
      table += str_cat("\n  … and ", different - kShown, " more");
    }
    throw MismatchError(
        str_cat("ranks have different models", table),
        "build the model the same way on every rank, from the same options");
  }
}

}  // namespace accelerate
