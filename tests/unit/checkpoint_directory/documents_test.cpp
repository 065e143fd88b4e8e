// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/documents.h"

#include <gtest/gtest.h>

#include "accelerate/json.h"
#include "base/str_cat.h"
#include "checkpoint_directory/checksummed_file.h"
#include "checkpoint_directory/staged_directory.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// The contents in which two otherwise equal checkpoints may differ.
struct CheckpointData {
  std::string loaders = "[]";
  std::string hook = "abc";
  std::int64_t step = 7;
  bool scaler = false;
};

fs::path save(
    const fs::path& parent,
    const std::string& name,
    const CheckpointData& saved) {
  StagedDirectory folder(parent);
  Manifest manifest;
  manifest.step = saved.step;
  const auto add = [&](const std::string& file, const std::string& content) {
    return write_checksummed(folder.path() / file, content);
  };
  manifest.files["loaders.json"] = add("loaders.json", saved.loaders);
  if (saved.scaler) {
    manifest.files["scaler.json"] = add("scaler.json", "{}");
  }
  // The number of writers does not count as a difference.
  manifest.files["model.safetensors.index.json"] =
      add("model.safetensors.index.json", "\"" + name + "\"");
  fs::create_directory(folder.path() / "hooks");
  manifest.hook_files["hooks/notes"] = add("hooks/notes", saved.hook);
  return folder.commit(manifest, name, IfExists::refuse);
}

std::vector<std::string> differences(
    const CheckpointData& first, const CheckpointData& second) {
  const TemporaryDirectory folder;
  std::vector<std::string> found;
  for (const auto& [document, key, description] : compare_documents(
           save(folder.path(), "first", first),
           save(folder.path(), "second", second))) {
    found.push_back(str_cat(document, " ", key, ": ", description));
  }
  return found;
}

using Found = std::vector<std::string>;

TEST(CompareDocuments, FindsNoDifferenceInEqualDocuments) {
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

TEST(CompareDocuments, CountsDifferencesInLongLists) {
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

TEST(CompareDocuments, ComparesStepDocumentsAndHookFiles) {
  EXPECT_EQ(
      differences({}, {.hook = "abd", .step = 8, .scaler = true}),
      (Found{
          "manifest.json step: 7 and 8",
          "scaler.json : only in the second",
          "hooks/notes : the contents differ"}));
  EXPECT_EQ(
      differences({.hook = "longer"}, {}),
      Found{"hooks/notes : 6 bytes and 3"});
}

}  // namespace
}  // namespace accelerate
