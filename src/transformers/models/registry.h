// SPDX-License-Identifier: Apache-2.0
// Which architectures there are. A new one: a file beside this with a function
// that returns its `Architecture`, and a line in the list below.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transformers/model_module.h"
#include "transformers/typed_config.h"

namespace transformers {

/// What a model is for.
enum class Task {
  base,
  sequence_classification,
  token_classification,
  question_answering,
  masked_lm,
  causal_lm,
};
std::string_view name_of(Task task);

/// One class of the peer.
struct ModelClass {
  std::string name;  ///< Its name there, written into `architectures`.
  std::function<std::shared_ptr<ModelModule>(const Config&)> make;
};

struct Architecture {
  std::string model_type;
  std::function<std::unique_ptr<ConfigValue>(
      const accelerate::Json&, const std::string&)>
      read_config;
  std::map<Task, ModelClass> classes;
  /// Ends of names in files that stand for nothing here: tables that older
  /// versions saved.
  std::vector<std::string> ignored;
};

/// Throws `UnsupportedError` listing the known ones for another.
const Architecture& architecture(
    std::string_view model_type, const std::string& source);
std::vector<std::string> known_model_types();

// region: list
// The function of each architecture's file. A macro, so that a new one is a
// line here and nowhere else.
#define TRANSFORMERS_ARCHITECTURES(each) \
  each(bert) each(distilbert) each(gpt2) each(llama) each(roberta)
// endregion

#define TRANSFORMERS_DECLARE(name) Architecture name();
TRANSFORMERS_ARCHITECTURES(TRANSFORMERS_DECLARE)
#undef TRANSFORMERS_DECLARE

/// A function that makes a `Module` from the typed config and more arguments.
template <typename Module, typename Typed>
auto make_model() {
  return [](const Config& config) -> std::shared_ptr<ModelModule> {
    return std::make_shared<Module>(config.as<Typed>());
  };
}

}  // namespace transformers
