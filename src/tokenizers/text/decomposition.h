// SPDX-License-Identifier: Apache-2.0
// Unicode's four normalization forms, as in Hugging Face `tokenizers`.
#pragma once

#include "tokenizers/text/aligned_text.h"

namespace transformers::tokenizers {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

void normalize(AlignedText& text, NormalForm form);

}  // namespace transformers::tokenizers
