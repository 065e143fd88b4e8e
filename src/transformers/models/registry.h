// SPDX-License-Identifier: Apache-2.0
// The supported architectures. To add an architecture, add a file to this
// folder with a function that returns its `Architecture`, and add an entry to
// the list below.
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

/// The task that a model is used for.
enum class Task {
  base,
  sequence_classification,
  token_classification,
  question_answering,
  masked_lm,
  causal_lm,
};
std::string_view name_of(Task task);

/// A model that corresponds to a class in Hugging Face Transformers.
struct ModelClass {
  std::string name;  ///< The Python class, saved in `architectures`.
  std::function<std::shared_ptr<ModelModule>(const Config&)> make;
};

struct Architecture {
  std::string model_type;
  std::function<std::unique_ptr<ConfigValue>(
      const accelerate::Json&, const std::string&)>
      read_config;
  std::map<Task, ModelClass> classes;
  /// Suffixes of tensor names. When files are loaded, tensors whose names end
  /// in one of these suffixes are ignored: they are buffers that older versions
  /// of Hugging Face Transformers saved.
  std::vector<std::string> ignored;
};

/// Returns the architecture with this model type. If the type is unknown,
/// throws an `UnsupportedError` that lists the known types.
const Architecture& architecture(
    std::string_view model_type, const std::string& source);
std::vector<std::string> known_model_types();

// region: list
// The function for each architecture. This is a macro so that a new
// architecture needs an entry only here.
#define TRANSFORMERS_ARCHITECTURES(each) \
  each(bert) each(distilbert) each(gpt2) each(llama) each(roberta)
// endregion

#define TRANSFORMERS_DECLARE(name) Architecture name();
TRANSFORMERS_ARCHITECTURES(TRANSFORMERS_DECLARE)
#undef TRANSFORMERS_DECLARE

/// Returns a function that makes a `Module` from the typed config.
template <typename Module, typename Typed>
auto make_model() {
  return [](const Config& config) -> std::shared_ptr<ModelModule> {
    return std::make_shared<Module>(config.as<Typed>());
  };
}

}  // namespace transformers
