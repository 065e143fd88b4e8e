// SPDX-License-Identifier: Apache-2.0
// Parses any bytes as a tokenizer.json. If it loads, encodes and decodes texts.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "accelerate/error.h"
#include "tokenizers/engine.h"

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
    // The only allowed error for a bad file.
  } catch (const accelerate::ArgumentError&) {
    // A regular expression that reaches its match limit.
  }
  return 0;
}
