// SPDX-License-Identifier: Apache-2.0
#include "transformers/models/registry.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {
namespace {

const std::map<std::string, Architecture, std::less<>>& registry() {
  static const auto all = [] {
    std::map<std::string, Architecture, std::less<>> map;
#define TRANSFORMERS_ADDRESS(name) name,
    for (Architecture (*make)() :
         {TRANSFORMERS_ARCHITECTURES(TRANSFORMERS_ADDRESS)}) {
#undef TRANSFORMERS_ADDRESS
      Architecture entry = make();
      map.emplace(entry.model_type, std::move(entry));
    }
    return map;
  }();
  return all;
}

}  // namespace

std::string_view name_of(Task task) {
  switch (task) {
    case Task::base:
      return "no head";
    case Task::sequence_classification:
      return "sequence classification";
    case Task::token_classification:
      return "token classification";
    case Task::question_answering:
      return "question answering";
    case Task::masked_lm:
      return "masked language modeling";
    case Task::causal_lm:
      return "causal language modeling";
  }
  return "";
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : registry()) {
    names.push_back(name);
  }
  return names;
}

const Architecture& architecture(
    std::string_view model_type, const std::string& source) {
  const auto found = registry().find(model_type);
  if (found == registry().end()) {
    throw accelerate::UnsupportedError(
        accelerate::str_cat(
            source,
            ": the model type `",
            accelerate::printable(model_type),
            "` is not supported; supported types: ",
            accelerate::join(known_model_types(), ", ")),
        accelerate::did_you_mean(model_type, known_model_types()));
  }
  return found->second;
}

}  // namespace transformers
