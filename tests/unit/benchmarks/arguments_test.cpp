// SPDX-License-Identifier: Apache-2.0
#include "support/arguments.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace accelerate::benchmarks {
namespace {

using testing::ExitedWithCode;

void check(std::vector<std::string> words, bool takes_words = false) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  check_arguments(
      static_cast<int>(argv.size()),
      argv.data(),
      {.text = "program [--json] {save | load} [folder=DIR]\n\n"
               "About what it --measures.",
       .takes_words = takes_words});
}

TEST(Arguments, OfTheUsageAreTaken) {
  check({"--json", "save", "folder=/tmp/x"});
  check({"load", "some/path"}, true);
}

TEST(Arguments, AnswerHelp) {
  EXPECT_EXIT(check({"--json", "--help"}), ExitedWithCode(0), "");
}

TEST(Arguments, ThatNobodyKnowsAreRefused) {
  for (const char* word :
       {"--jsn", "-x", "foldr=/tmp", "--folder=x", "word", "--measures"}) {
    EXPECT_EXIT(
        check({word}),
        ExitedWithCode(2),
        "error: unknown option `" + std::string(word) + "`\nusage: program ")
        << word;
  }
  EXPECT_EXIT(check({"--jsn"}, true), ExitedWithCode(2), "unknown option");
}

TEST(Arguments, HaveValues) {
  std::string program = "program";
  std::string folder = "folder=a=b";
  char* argv[] = {program.data(), folder.data()};
  EXPECT_EQ(value_of(2, argv, "folder"), "a=b");
  EXPECT_EQ(value_of(2, argv, "fold"), "");
  EXPECT_FALSE(has_flag(2, argv, "--json"));
}

}  // namespace
}  // namespace accelerate::benchmarks
