// SPDX-License-Identifier: Apache-2.0
#include "support/arguments.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace accelerate::benchmarks {
namespace {

using testing::ExitedWithCode;

void check(std::vector<std::string> arguments, bool takes_positional = false) {
  arguments.insert(arguments.begin(), "program");
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  check_arguments(
      static_cast<int>(argv.size()),
      argv.data(),
      {.text = "program [--json] {save | load} [folder=DIR]\n\n"
               "About what it --measures.",
       .takes_positional = takes_positional});
}

TEST(Arguments, AcceptsArgumentsInTheUsage) {
  check({"--json", "save", "folder=/tmp/x"});
  check({"load", "some/path"}, true);
}

TEST(Arguments, PrintsHelp) {
  EXPECT_EXIT(check({"--json", "--help"}), ExitedWithCode(0), "");
}

TEST(Arguments, RejectsUnknownArguments) {
  for (const char* argument :
       {"--jsn", "-x", "foldr=/tmp", "--folder=x", "word", "--measures"}) {
    EXPECT_EXIT(
        check({argument}),
        ExitedWithCode(2),
        "error: unknown option `" + std::string(argument) +
            "`\nusage: program ")
        << argument;
  }
  EXPECT_EXIT(check({"--jsn"}, true), ExitedWithCode(2), "unknown option");
}

TEST(Arguments, ReadsValues) {
  std::string program = "program";
  std::string folder = "folder=a=b";
  char* argv[] = {program.data(), folder.data()};
  EXPECT_EQ(value_of(2, argv, "folder"), "a=b");
  EXPECT_EQ(value_of(2, argv, "fold"), "");
  EXPECT_FALSE(has_flag(2, argv, "--json"));
}

}  // namespace
}  // namespace accelerate::benchmarks
