// SPDX-License-Identifier: Apache-2.0
// Error messages for folders whose files contradict each other, or whose
// tokenizer class is not supported.
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "transformers/tokenizer.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::FormatError;
using accelerate::message_of;
using testing::HasSubstr;

const std::string kGoldenFolders =
    std::string(ACCELERATE_GOLDEN) + "/tokenizers/folders/";

TEST(BadTokenizerFolder, ReportsTheMissingFiles) {
  EXPECT_THAT(
      message_of<accelerate::IoError>(
          [] { (void)AutoTokenizer::from_pretrained(kGoldenFolders); }),
      HasSubstr("contains neither tokenizer.json, nor vocab.txt"));
  EXPECT_THAT(
      message_of<accelerate::IoError>(
          [] { (void)AutoTokenizer::from_pretrained("/no/such"); }),
      HasSubstr("there is no folder /no/such"));
}

// A folder with the vocabulary files of BERT and GPT-2.
class ClassFolder {
 public:
  ClassFolder() {
    for (const char* name :
         {"vocab_txt/vocab.txt",
          "gpt2_files/vocab.json",
          "gpt2_files/merges.txt"}) {
      const std::filesystem::path source = kGoldenFolders + name;
      std::filesystem::copy_file(source, folder_.path() / source.filename());
    }
  }
  void write(const char* name, const std::string& content) const {
    folder_.write(name, content);
  }
  std::string path() const { return folder_.path().string(); }
  // The message without the path of the folder.
  std::string message() const {
    const std::string text = message_of<accelerate::UnsupportedError>(
        [&] { (void)AutoTokenizer::from_pretrained(path()); });
    return text.substr(text.find(path()) + path().size() + 1);
  }

 private:
  accelerate::TemporaryDirectory folder_;
};

TEST(BadTokenizerFolder, RefusesAnUnsupportedClassByName) {
  for (const std::string name :
       {"WhisperTokenizer",
        "BertJapaneseTokenizer",
        "CodeLlamaTokenizerFast",
        "BlenderbotSmallTokenizer"}) {
    const ClassFolder folder;
    folder.write(
        "tokenizer_config.json", R"({"tokenizer_class":")" + name + "\"}");

    EXPECT_EQ(
        folder.message(),
        "tokenizer_config.json: $.tokenizer_class is `" + name +
            "`, but the tokenizer class `" + name.substr(0, name.find("Fast")) +
            "` is not supported");
  }
}

TEST(BadTokenizerFolder, RefusesTheClassOfAModelByName) {
  const ClassFolder whisper;
  whisper.write("config.json", R"({"model_type":"whisper"})");
  EXPECT_EQ(
      whisper.message(),
      "config.json: $.model_type is `whisper`, but the tokenizer class "
      "`WhisperTokenizer` is not supported");

  const ClassFolder japanese;
  japanese.write(
      "config.json",
      R"({"model_type":"bert","tokenizer_class":"BertJapaneseTokenizer"})");
  EXPECT_EQ(
      japanese.message(),
      "config.json: $.tokenizer_class is `BertJapaneseTokenizer`, but the "
      "tokenizer class `BertJapaneseTokenizer` is not supported");
}

TEST(BadTokenizerFolder, DoesNotGuessTheClassOfAnUnknownModel) {
  const ClassFolder model;
  model.write("config.json", R"({"model_type":"no_such_model"})");
  EXPECT_EQ(
      model.message(),
      "config.json: $.model_type is `no_such_model`, so a tokenizer.json is "
      "needed, but the folder has none");

  const ClassFolder kind;
  kind.write("tokenizer_config.json", R"({"tokenizer_class":"NoSuch"})");
  EXPECT_EQ(
      kind.message(),
      "tokenizer_config.json: $.tokenizer_class is `NoSuch`, so a "
      "tokenizer.json is needed, but the folder has none");
}

TEST(BadTokenizerFolder, RefusesAClassWithItsOwnPythonCode) {
  const ClassFolder folder;
  folder.write(
      "tokenizer_config.json",
      R"({"tokenizer_class":"NoSuch","auto_map":{"AutoTokenizer":["a.B",null]}})");

  EXPECT_EQ(
      folder.message(),
      "tokenizer_config.json: the tokenizer needs custom Python code "
      "(`auto_map`)");
}

TEST(BadTokenizerFolder, RefusesAClassThatNeedsAnotherModel) {
  const accelerate::TemporaryDirectory folder;
  std::filesystem::copy_file(
      kGoldenFolders + "bert/tokenizer.json", folder.path() / "tokenizer.json");
  folder.write(
      "tokenizer_config.json", R"({"tokenizer_class":"LlamaTokenizer"})");

  EXPECT_THAT(
      message_of<FormatError>([&] {
        (void)AutoTokenizer::from_pretrained(folder.path().string());
      }),
      HasSubstr("tokenizer.json: $.model: the tokenizer class "
                "`LlamaTokenizer` needs a BPE model, but the type is "
                "`WordPiece`"));
}

// Python reads and writes `NaN` and `Infinity`, and fails later if one of them
// is a length.
TEST(BadTokenizerFolder, ReadsNumbersThatAreNotInStandardJson) {
  const ClassFolder folder;
  folder.write(
      "tokenizer_config.json",
      R"({"tokenizer_class":"BertTokenizer","model_max_length":Infinity,)"
      R"("my_score":NaN})");
  folder.write("special_tokens_map.json", R"({"my_score":NaN})");
  folder.write("config.json", R"({"layer_norm_eps":NaN})");
  const accelerate::TemporaryDirectory saved;

  const auto tokenizer = AutoTokenizer::from_pretrained(folder.path());
  tokenizer.save_pretrained(saved.path());

  EXPECT_EQ(tokenizer.model_max_length(), std::nullopt);
  EXPECT_THAT(
      accelerate::read_file(saved.path() / "tokenizer_config.json", 1 << 20),
      HasSubstr(R"("my_score": NaN)"));
}

TEST(BadTokenizerFolder, RefusesALengthThatIsNotAWholeNumber) {
  for (const auto& [length, problem] : std::map<std::string, std::string>{
           {"NaN", "expected 1 or more, found nan"},
           {"-Infinity", "expected 1 or more, found -inf"},
           {"5.5", "expected a whole number, found 5.5"}}) {
    const ClassFolder folder;
    folder.write(
        "tokenizer_config.json",
        R"({"tokenizer_class":"BertTokenizer","model_max_length":)" + length +
            "}");

    EXPECT_THAT(
        message_of<FormatError>(
            [&] { (void)AutoTokenizer::from_pretrained(folder.path()); }),
        HasSubstr("tokenizer_config.json: $.model_max_length: " + problem));
  }
}

TEST(BadTokenizerFolder, RejectsAPrefixSpaceThatTheClassIgnores) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        (void)AutoTokenizer::from_pretrained(
            kGoldenFolders + "bert", {.add_prefix_space = true});
      }),
      "add_prefix_space is set, but the tokenizer class `BertTokenizer` does "
      "not have this setting");
}

}  // namespace
}  // namespace transformers
