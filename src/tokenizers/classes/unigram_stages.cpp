// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/classes/unigram_stages.h"

#include <utility>

namespace transformers::tokenizers {

using accelerate::Json;

Json unigram_model(std::int64_t unk_id) {
  return Json::object(
      {{"type", "Unigram"}, {"unk_id", unk_id}, {"byte_fallback", false}});
}

Json metaspace_stage(const char* prepend_scheme) {
  return Json::object(
      {{"type", "Metaspace"},
       {"replacement", "▁"},
       {"prepend_scheme", prepend_scheme},
       {"split", true}});
}

const char* prepend_scheme(const ClassArguments& arguments) {
  return arguments.node().boolean("add_prefix_space", true) ? "always"
                                                            : "never";
}

Json pre_tokenizer_sequence(Json first, Json second) {
  return Json::object(
      {{"type", "Sequence"},
       {"pretokenizers", Json::array({std::move(first), std::move(second)})}});
}

Json normalizer_sequence(Json::Array parts) {
  return Json::object(
      {{"type", "Sequence"}, {"normalizers", Json(std::move(parts))}});
}

Json replace_stage(const char* text, const char* content) {
  return Json::object(
      {{"type", "Replace"},
       {"pattern", Json::object({{"String", text}})},
       {"content", content}});
}

Json replace_regex_stage(const char* regex, const char* content) {
  return Json::object(
      {{"type", "Replace"},
       {"pattern", Json::object({{"Regex", regex}})},
       {"content", content}});
}

Json charsmap_stage(const Json* tokenizer_json) {
  const Json* normalizer =
      tokenizer_json == nullptr ? nullptr : tokenizer_json->find("normalizer");
  if (normalizer == nullptr) {
    return {};
  }
  const Json* parts = normalizer->find("normalizers");
  const Json::Array single{*normalizer};
  for (const Json& part :
       parts != nullptr && parts->is_array() ? parts->as_array() : single) {
    const Json* type = part.find("type");
    if (type != nullptr && *type == Json("Precompiled")) {
      return part;
    }
  }
  return {};
}

}  // namespace transformers::tokenizers
