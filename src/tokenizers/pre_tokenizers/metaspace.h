// SPDX-License-Identifier: Apache-2.0
// Options shared by the Metaspace pre-tokenizer and decoder.
#pragma once

#include <string>

#include "tokenizers/files/json_node.h"

namespace transformers::tokenizers {

enum class PrependScheme { always, first, never };

struct MetaspaceOptions {
  std::string replacement;
  PrependScheme scheme = PrependScheme::always;
  bool split = true;
};

MetaspaceOptions read_metaspace(const JsonNode& node);

}  // namespace transformers::tokenizers
