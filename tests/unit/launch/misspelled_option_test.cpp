// SPDX-License-Identifier: Apache-2.0
#include "launch/misspelled_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accelerate {
namespace {

const std::vector<std::string> kFields = {
    "batch_size", "shuffle", "gradient_accumulation_steps"};

TEST(MisspelledOption, NamesTheNearestField) {
  EXPECT_EQ(
      misspelled_option(
          "int main() {\n  DataLoader loader(data, {.batchsize = 8});\n}\n",
          kFields),
      "line 2 sets `.batchsize`; did you mean `.batch_size`?");
  EXPECT_EQ(
      misspelled_option("f({.shuffle = true,\n .batch_sise{8}});", kFields),
      "line 2 sets `.batch_sise`; did you mean `.batch_size`?");
}

TEST(MisspelledOption, IgnoresWhatIsNoMistake) {
  for (const char* source :
       {"f({.batch_size = 8});",  // a field
        "f({.unrelated = 8});",   // similar to nothing
        "x.batchsize = 8;",       // not a designator
        "f(x, y.batchsize);",     // not set
        "struct Settings { int batchsize; }; f(Settings{.batchsize = 8});",
        ".",
        "{."}) {
    EXPECT_EQ(misspelled_option(source, kFields), "") << source;
  }
}

TEST(MisspelledOption, KnowsTheFieldsOfThePublicHeaders) {
  const auto fields =
      public_fields({"-O2", "-isystem", ACCELERATE_INCLUDE, "-isystem"});

  EXPECT_THAT(
      fields,
      testing::IsSupersetOf(
          {"batch_size", "mixed_precision", "required", "max_length"}));
  EXPECT_EQ(public_fields({"-isystem", "/no/such/folder"}).size(), 0U);
}

}  // namespace
}  // namespace accelerate
