// SPDX-License-Identifier: Apache-2.0
// The tables of Hugging Face Transformers that map model types to tokenizer
// classes.
#pragma once

#include <string>
#include <string_view>

namespace transformers::tokenizers {

/// Returns the name of the tokenizer class for a `model_type`, or "" if there
/// is none.
std::string class_of_model_type(std::string_view model_type);
/// Returns whether one of the tables contains this class.
bool is_listed_class(std::string_view name);
/// Returns whether published models with this model type often contain a wrong
/// class name. If so, the class for the model type is used instead of that
/// class name.
bool often_has_wrong_class(std::string_view model_type);
/// Returns whether the class for this model type may be used only if a file of
/// the tokenizer contains a class name.
bool counts_only_with_class(std::string_view model_type);
/// Returns whether this model's tokenizer.json is used unchanged, regardless of
/// the class name in its files.
bool is_backend_model(const std::string& name_or_path);

}  // namespace transformers::tokenizers
