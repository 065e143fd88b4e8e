// SPDX-License-Identifier: Apache-2.0
// Descriptions of stages that the tokenizer classes with a Unigram model use.
#pragma once

#include <cstdint>

#include "base/json.h"
#include "tokenizers/classes/class_arguments.h"

namespace transformers::tokenizers {

accelerate::Json unigram_model(std::int64_t unk_id);
/// Returns the description of a Metaspace stage, which can be the pre-tokenizer
/// or the decoder.
accelerate::Json metaspace_stage(const char* prepend_scheme);
/// Returns the prepend scheme for the setting `add_prefix_space`.
const char* prepend_scheme(const ClassArguments& arguments);
accelerate::Json pre_tokenizer_sequence(
    accelerate::Json first, accelerate::Json second);
accelerate::Json normalizer_sequence(accelerate::Json::Array parts);
/// Return the description of a normalizer that replaces a text, or the matches
/// of a regular expression, with `content`.
accelerate::Json replace_stage(const char* text, const char* content);
accelerate::Json replace_regex_stage(const char* regex, const char* content);
/// Returns the normalizer `Precompiled` from tokenizer.json, which contains
/// SentencePiece's character map, or null if there is none.
accelerate::Json charsmap_stage(const accelerate::Json* tokenizer_json);

}  // namespace transformers::tokenizers
