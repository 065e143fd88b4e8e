// SPDX-License-Identifier: Apache-2.0
// Builds the pipeline of a tokenizer according to its class.
#pragma once

#include <memory>
#include <string>

#include "tokenizers/classes/class_arguments.h"
#include "tokenizers/classes/tokenizer_class.h"
#include "tokenizers/pipeline.h"

namespace transformers::tokenizers {

/// Completes the arguments with the defaults of the class, and with `settings`,
/// which come from tokenizer.json.
void complete_arguments(
    const TokenizerClass& kind,
    const SavedCallSettings& settings,
    ClassArguments& arguments);

/// Builds the pipeline from complete arguments. `tokenizer_json` is the
/// description in tokenizer.json, or null; `text` is the vocabulary; `source`
/// is the file name for error messages. Throws `FormatError` when the files
/// contradict each other.
std::unique_ptr<Pipeline> build_class_pipeline(
    const TokenizerClass& kind,
    const ClassArguments& arguments,
    const accelerate::Json* tokenizer_json,
    const ModelText& text,
    const std::string& source);

/// Returns whether the class would create the same post-processor again if it
/// loaded this pipeline from a tokenizer.json. If not, the saved files must not
/// contain the name of the class.
bool rebuilds_post_processor(
    const TokenizerClass& kind,
    const ClassArguments& arguments,
    const Pipeline& pipeline);

}  // namespace transformers::tokenizers
