// SPDX-License-Identifier: Apache-2.0
// Parses any bytes as the config.json of each architecture.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "transformers/typed_config.h"

namespace {

template <typename Typed>
void read_and_write(const accelerate::Json& json) {
  try {
    const auto config = transformers::read_config<Typed>(json, "config.json");
    const accelerate::Json written = config->to_json();
    // Reading the written file gives the same values.
    const auto again = transformers::read_config<Typed>(written, "config.json");
    if (!(again->to_json() == written)) {
      std::abort();
    }
  } catch (const accelerate::FormatError&) {
  } catch (const accelerate::UnsupportedError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  accelerate::Json json;
  try {
    json = accelerate::Json::parse(text);
  } catch (const accelerate::FormatError&) {
    return 0;
  }
  read_and_write<transformers::BertConfig>(json);
  read_and_write<transformers::RobertaConfig>(json);
  read_and_write<transformers::DistilBertConfig>(json);
  read_and_write<transformers::GPT2Config>(json);
  read_and_write<transformers::LlamaConfig>(json);
  return 0;
}
