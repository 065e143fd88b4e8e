// SPDX-License-Identifier: Apache-2.0
// The merges of a BPE model, from the text of its file.
#pragma once

#include <string>
#include <string_view>

#include "transformers/tokenizers/merge_table.h"
#include "transformers/tokenizers/model.h"

namespace transformers::tokenizers {

/// Reads `["a b", …]` or `[["a", "b"], …]`. Throws `FormatError` naming the
/// place where a merge is malformed or `vocabulary` lacks what it needs.
MergeTable read_merges(
    const ModelText& text,
    const std::string& source,
    const Vocabulary& vocabulary,
    std::string_view continuing_subword_prefix);

}  // namespace transformers::tokenizers
