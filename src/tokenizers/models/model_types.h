// SPDX-License-Identifier: Apache-2.0
// Which tokenizer class belongs to which type of model, in Hugging Face
// Transformers.
#pragma once

#include <string>
#include <string_view>

namespace transformers::tokenizers {

/// Returns the class for a `model_type`, or "" if there is none.
std::string class_of_model_type(std::string_view model_type);
/// Returns whether a table names this class.
bool is_listed_class(std::string_view name);
/// Returns whether published folders with this model type often name a wrong
/// class; the class for the model type is used instead.
bool often_has_wrong_class(std::string_view model_type);
/// Returns whether the model type counts only if a file also names a class.
bool counts_only_with_class(std::string_view model_type);
/// Returns whether this model's tokenizer.json is used as it is, whatever class
/// its files name.
bool is_backend_model(const std::string& name_or_path);

}  // namespace transformers::tokenizers
