// SPDX-License-Identifier: Apache-2.0
// Reads the merges of a BPE model from JSON text.
#pragma once

#include <string>
#include <string_view>

#include "tokenizers/models/merge_table.h"
#include "tokenizers/models/model.h"

namespace transformers::tokenizers {

/// Reads merges in the form `["a b", …]` or `[["a", "b"], …]`. Throws
/// `FormatError` with the position when a merge is malformed or contains a
/// token that is not in `vocabulary`.
MergeTable read_merges(
    const ModelText& text,
    const std::string& source,
    const Vocabulary& vocabulary,
    std::string_view continuing_subword_prefix);

}  // namespace transformers::tokenizers
