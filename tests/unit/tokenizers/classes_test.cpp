// SPDX-License-Identifier: Apache-2.0
// The tokenizer that a folder describes, by `tokenizer_class`, `model_type` and
// the other files, compared with Hugging Face Transformers
// (tests/parity/make_tokenizer_classes.py).
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/json.h"
#include "support/temporary_directory.h"
#include "transformers/tokenizer.h"

namespace transformers {
namespace {

using accelerate::Json;
namespace fs = std::filesystem;

const fs::path kTokenizers = fs::path(ACCELERATE_GOLDEN) / "tokenizers";

Json read(const fs::path& path) {
  return Json::parse(accelerate::read_file(path, 1 << 24));
}

const Json& golden_classes() {
  static const Json golden = read(kTokenizers / "classes.json");
  return golden;
}

void write_folder(
    const Json& test_case, const accelerate::TemporaryDirectory& folder) {
  if (test_case.at("base").is_string()) {
    Json json = read(kTokenizers / test_case.at("base").as_string());
    for (const auto& [key, value] : test_case.at("edit").as_object()) {
      json[key] = value;
    }
    folder.write("tokenizer.json", json.dump());
  }
  for (const Json& name : test_case.at("copy").as_array()) {
    const fs::path source = kTokenizers / name.as_string();
    fs::copy_file(source, folder.path() / source.filename());
  }
  for (const auto& [name, content] : test_case.at("write").as_object()) {
    folder.write(name, content.dump());
  }
}

// Returns the description without its large parts, as in the golden file.
Json shortened(const Json& value) {
  if (value.is_array()) {
    Json::Array parts;
    for (const Json& part : value.as_array()) {
      parts.push_back(shortened(part));
    }
    return parts;
  }
  if (!value.is_object()) {
    return value;
  }
  Json result = Json::object();
  for (const auto& [key, part] : value.as_object()) {
    if (key == "precompiled_charsmap") {
      result[key] = part.as_string().size();
    } else if (key != "vocab" && key != "merges" && key != "added_tokens") {
      result[key] = shortened(part);
    }
  }
  return result;
}

Json added_tokens(const Json& tokenizer_json) {
  Json result = Json::array();
  for (const Json& token : tokenizer_json.at("added_tokens").as_array()) {
    std::string flags;
    for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) {
      flags += token.at(name).as_bool() ? std::string(1, name[0]) : "";
    }
    flags += token.at("special").as_bool() ? "!" : "";
    result.push_back(Json::array({token.at("id"), token.at("content"), flags}));
  }
  return result;
}

Json row_json(const Encoding& row) {
  std::vector<std::int64_t> offsets;
  for (const auto& [begin, end] : row.offset_mapping) {
    offsets.push_back(begin);
    offsets.push_back(end);
  }
  std::vector<std::int64_t> sequences;
  for (const auto& sequence : row.sequence_ids) {
    sequences.push_back(sequence.value_or(-1));
  }
  return Json::object(
      {{"ids", row.input_ids},
       {"types", row.token_type_ids},
       {"offsets", offsets},
       {"sequences", sequences}});
}

Json encode_rows(const Tokenizer& tokenizer, const std::string& kind) {
  TokenizerCallOptions options{
      .return_token_type_ids = true,
      .return_offsets_mapping = true,
      .return_word_ids = true};
  options.add_special_tokens = !kind.starts_with("bare");
  if (kind.ends_with("overflow")) {
    options.truncation = true;
    options.max_length = tokenizer.num_special_tokens_to_add(true) + 8;
    options.stride = 1;
    options.return_overflowing_tokens = true;
  }
  const Json& pair = golden_classes().at("pair");
  const std::vector<std::string> first{pair.at(std::size_t{0}).as_string()};
  const std::vector<std::string> second{pair.at(std::size_t{1}).as_string()};
  Json rows = Json::array();
  for (const Encoding& row : kind == "single"
                                 ? tokenizer(first, options)
                                 : tokenizer(first, second, options)) {
    rows.push_back(row_json(row));
  }
  return rows;
}

// Sorts the members of objects, because their order is not compared.
Json sorted(const Json& value) {
  if (value.is_array()) {
    Json::Array parts;
    for (const Json& part : value.as_array()) {
      parts.push_back(sorted(part));
    }
    return parts;
  }
  if (!value.is_object()) {
    return value;
  }
  std::vector<std::string> keys;
  for (const auto& [key, part] : value.as_object()) {
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  Json result = Json::object();
  for (const std::string& key : keys) {
    result[key] = sorted(value.at(key));
  }
  return result;
}

std::string text_of(const Json& value) {
  return sorted(value).dump();
}

class TokenizerClasses : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { write_folder(case_, folder_); }
  Tokenizer load() const {
    return AutoTokenizer::from_pretrained(folder_.path().string());
  }

  accelerate::TemporaryDirectory folder_;
  const Json& case_ = golden_classes().at("cases").at(GetParam());
  const Json& expected_ = case_.at("expected");
};

TEST_P(TokenizerClasses, BuildsTheTokenizerOfPython) {
  if (expected_.is_null()) {
    EXPECT_THROW((void)load(), accelerate::Error);
    return;
  }
  const Tokenizer tokenizer = load();

  tokenizer.save_pretrained(folder_.path() / "saved");
  const Json saved = read(folder_.path() / "saved/tokenizer.json");

  const auto index =
      static_cast<std::size_t>(expected_.at("pipeline").as_integer());
  EXPECT_EQ(
      text_of(shortened(saved)),
      text_of(golden_classes().at("pipelines").at(index)));
  EXPECT_EQ(added_tokens(saved).dump(), expected_.at("added").dump());
}

TEST_P(TokenizerClasses, HasTheSettingsOfPython) {
  if (expected_.is_null()) {
    GTEST_SUCCEED();
    return;
  }
  const Tokenizer tokenizer = load();

  for (const char* name :
       {"bos_token",
        "eos_token",
        "unk_token",
        "sep_token",
        "pad_token",
        "cls_token",
        "mask_token"}) {
    const Json* token = expected_.at("special").find(name);
    EXPECT_EQ(
        tokenizer.special_token(name),
        token ? std::optional(token->as_string()) : std::nullopt)
        << name;
  }
  EXPECT_EQ(
      Json(tokenizer.all_special_ids()).dump(),
      expected_.at("special_ids").dump());
  EXPECT_EQ(tokenizer.size(), expected_.at("size").as_integer());
  const auto side = [](Side value) {
    return value == Side::left ? "left" : "right";
  };
  EXPECT_EQ(side(tokenizer.padding_side()), expected_.at("side").as_string());
  EXPECT_EQ(
      side(tokenizer.truncation_side()),
      expected_.at("truncation_side").as_string());
  EXPECT_EQ(
      tokenizer.model_max_length().value_or(1'000'000'000),
      expected_.at("max_length").as_integer());
  EXPECT_EQ(
      Json(tokenizer.model_input_names()).dump(),
      expected_.at("inputs").dump());
}

TEST_P(TokenizerClasses, EncodesAndDecodesAsPython) {
  if (expected_.is_null()) {
    GTEST_SUCCEED();
    return;
  }
  const Tokenizer tokenizer = load();

  std::vector<std::int64_t> all;
  const Json::Array& texts = golden_classes().at("texts").as_array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto ids = tokenizer.encode(texts[i].as_string());
    EXPECT_EQ(Json(ids).dump(), expected_.at("ids").at(i).dump());
    EXPECT_EQ(tokenizer.decode(ids), expected_.at("decoded").at(i).as_string());
    all.insert(all.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(
      tokenizer.decode(all, {.skip_special_tokens = true}),
      expected_.at("plain").as_string());
  for (const auto& [kind, rows] : expected_.at("rows").as_object()) {
    Json encoded = encode_rows(tokenizer, kind);
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      if (!rows.at(i).contains("sequences")) {
        encoded.as_array()[i].as_object().erase("sequences");
      }
    }
    EXPECT_EQ(text_of(encoded), text_of(rows)) << kind;
  }
  // The string is not treated as `false`, and `max_length` alone does not
  // truncate.
  const auto size =
      tokenizer(
          texts[0].as_string(), {.padding = "do_not_pad", .max_length = 4})
          .size();
  EXPECT_EQ(Json(size).dump(), expected_.at("do_not_pad").dump());
}

TEST_P(TokenizerClasses, LoadsWhatItSaved) {
  if (expected_.is_null()) {
    GTEST_SUCCEED();
    return;
  }
  const Tokenizer tokenizer = load();
  const fs::path saved = folder_.path() / "saved";

  tokenizer.save_pretrained(saved);
  const Tokenizer reloaded = AutoTokenizer::from_pretrained(saved.string());

  EXPECT_EQ(encode_rows(reloaded, "pair"), encode_rows(tokenizer, "pair"));
  EXPECT_EQ(reloaded.all_special_ids(), tokenizer.all_special_ids());
  EXPECT_EQ(reloaded.model_input_names(), tokenizer.model_input_names());
  EXPECT_EQ(reloaded.padding_side(), tokenizer.padding_side());
  EXPECT_EQ(reloaded.size(), tokenizer.size());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TokenizerClasses,
    testing::Range(std::size_t{0}, golden_classes().at("cases").size()),
    [](const auto& test) {
      return golden_classes().at("cases").at(test.param).at("name").as_string();
    });

}  // namespace
}  // namespace transformers
