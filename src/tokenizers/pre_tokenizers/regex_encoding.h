// SPDX-License-Identifier: Apache-2.0
// UTF-8 as Oniguruma's regular expressions see it.
#pragma once

struct OnigEncodingTypeST;

namespace transformers::tokenizers {

/// Returns an encoding that is UTF-8 with the character classes and letter
/// cases of unicode_properties.h. Oniguruma's own tables are those of the
/// Unicode version that was current when the installed version was released;
/// Hugging Face `tokenizers` may have others.
///
/// Initializes Oniguruma. Thread-safe.
OnigEncodingTypeST* regex_encoding();

}  // namespace transformers::tokenizers
