// SPDX-License-Identifier: Apache-2.0
// The UTF-8 encoding for Oniguruma's regular expressions.
#pragma once

struct OnigEncodingTypeST;

namespace transformers::tokenizers {

/// Returns an encoding for Oniguruma: UTF-8 with the character classes and
/// letter cases of unicode_properties.h. Oniguruma's own tables are not used,
/// because their Unicode version depends on the installed Oniguruma and may
/// differ from the version in Hugging Face `tokenizers`.
///
/// Initializes Oniguruma. Thread-safe.
OnigEncodingTypeST* regex_encoding();

}  // namespace transformers::tokenizers
