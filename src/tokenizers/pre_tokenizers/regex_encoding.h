// SPDX-License-Identifier: Apache-2.0
// UTF-8 as Oniguruma's regular expressions see it.
#pragma once

struct OnigEncodingTypeST;

namespace transformers::tokenizers {

/// Returns an encoding for Oniguruma: UTF-8 with the character classes and
/// letter cases of unicode_properties.h. Oniguruma's own tables follow the
/// Unicode version that was current when the installed Oniguruma was released;
/// Hugging Face `tokenizers` may use another version.
///
/// Initializes Oniguruma. Thread-safe.
OnigEncodingTypeST* regex_encoding();

}  // namespace transformers::tokenizers
