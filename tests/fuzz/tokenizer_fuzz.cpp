// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tokenizer.json; what loads encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "accelerate/error.h"
#include "transformers/tokenizers/engine.h"

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  using namespace transformers::tokenizers;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Engine engine(
        std::make_unique<Pipeline>(read_pipeline(text, "tokenizer.json")));
    Engine::Lease workspace(engine);
    for (const bool track : {false, true}) {
      Tokens tokens;
      for (const char* sentence :
           {"Hello, wörld! 12 <mask> ab\n\n it's",
            "",
            " \u0301a\u4e2d\u200d"}) {
        engine.encode(sentence, track, *workspace, tokens);
      }
      std::vector<std::string> parts;
      for (const std::uint32_t id : tokens.ids) {
        parts.emplace_back(
            engine.pipeline().model->vocabulary().text(id).value_or(""));
      }
      if (engine.pipeline().decoder != nullptr) {
        engine.pipeline().decoder->decode(parts);
      }
    }
  } catch (const accelerate::FormatError&) {
    // The one answer to a bad file.
  } catch (const accelerate::ArgumentError&) {
    // An expression that gives up on a text.
  }
  return 0;
}
