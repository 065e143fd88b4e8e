// SPDX-License-Identifier: Apache-2.0
#include "folders/documents.h"

#include <gtest/gtest.h>

#include "accelerate/json.h"
#include "base/str_cat.h"
#include "folders/staged_folder.h"
#include "folders/summed_file.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// What two checkpoints that are equal but for this have.
struct Saved {
  std::string loaders = "[]";
  std::string hook = "abc";
  std::int64_t step = 7;
  bool scaler = false;
};

fs::path save(
    const fs::path& parent, const std::string& name, const Saved& saved) {
  StagedFolder folder(parent);
  Manifest manifest;
  manifest.step = saved.step;
  const auto add = [&](const std::string& file, const std::string& content) {
    return write_summed(folder.path() / file, content);
  };
  manifest.files["loaders.json"] = add("loaders.json", saved.loaders);
  if (saved.scaler) {
    manifest.files["scaler.json"] = add("scaler.json", "{}");
  }
  // How many wrote is no difference.
  manifest.files["model.safetensors.index.json"] =
      add("model.safetensors.index.json", "\"" + name + "\"");
  fs::create_directory(folder.path() / "hooks");
  manifest.hook_files["hooks/notes"] = add("hooks/notes", saved.hook);
  return folder.commit(manifest, name, Existing::refuse);
}

std::vector<std::string> differences(const Saved& first, const Saved& second) {
  const TemporaryFolder folder;
  std::vector<std::string> found;
  for (const auto& [document, key, what] : compare_documents(
           save(folder.path(), "first", first),
           save(folder.path(), "second", second))) {
    found.push_back(str_cat(document, " ", key, ": ", what));
  }
  return found;
}

using Found = std::vector<std::string>;

TEST(CompareDocuments, FindsNothingInEqualOnes) {
  EXPECT_EQ(
      differences({.loaders = R"([{"a": 1}])"}, {.loaders = R"([{ "a":1 }])"}),
      Found{});
}

TEST(CompareDocuments, NamesTheKeysThatDiffer) {
  EXPECT_EQ(
      differences(
          {.loaders = R"([{"a": {"b": 1}, "c": [1, 2], "d": 0}])"},
          {.loaders = R"([{"a": {"b": 2}, "c": [1, 2, 3], "e": 0}, null])"}),
      (Found{
          "loaders.json [0].a.b: 1 and 2",
          "loaders.json [0].c[2]: only in the second",
          "loaders.json [0].d: only in the first",
          "loaders.json [0].e: only in the second",
          "loaders.json [1]: only in the second"}));
}

TEST(CompareDocuments, CountsInLongLists) {
  Json first = Json::array();
  for (int i = 0; i < 100; ++i) {
    first.push_back(i);
  }
  Json second = first;
  second.as_array()[3] = 0;
  second.as_array()[99] = 0;
  Json third = second;
  third.push_back(0);

  EXPECT_EQ(
      differences({.loaders = first.dump()}, {.loaders = second.dump()}),
      Found{"loaders.json : 2 of 100 values differ"});
  EXPECT_EQ(
      differences({.loaders = first.dump()}, {.loaders = third.dump()}),
      Found{"loaders.json : 100 values and 101"});
}

TEST(CompareDocuments, ShortensLongValues) {
  const std::string text(100, 'x');
  EXPECT_EQ(
      differences({.loaders = "1"}, {.loaders = '"' + text + '"'}),
      Found{"loaders.json : 1 and \"" + text.substr(0, 56) + "..."});
}

TEST(CompareDocuments, LooksAtStepDocumentsAndHooks) {
  EXPECT_EQ(
      differences({}, {.hook = "abd", .step = 8, .scaler = true}),
      (Found{
          "manifest.json step: 7 and 8",
          "scaler.json : only in the second",
          "hooks/notes : other bytes"}));
  EXPECT_EQ(
      differences({.hook = "longer"}, {}),
      Found{"hooks/notes : 6 bytes and 3"});
}

}  // namespace
}  // namespace accelerate
