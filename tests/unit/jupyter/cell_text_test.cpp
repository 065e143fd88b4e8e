// SPDX-License-Identifier: Apache-2.0
#include "jupyter/cell_text.h"

#include <gtest/gtest.h>

namespace accelerate::jupyter {
namespace {

struct CompletenessCase {
  const char* name;
  const char* code;
  Completeness expected;
};

class CellCompleteness : public testing::TestWithParam<CompletenessCase> {};

TEST_P(CellCompleteness, IsDetected) {
  EXPECT_EQ(completeness(GetParam().code), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Texts,
    CellCompleteness,
    testing::Values(
        CompletenessCase{"Empty", "", Completeness::complete},
        CompletenessCase{
            "Function", "int f() {\n  return 1;\n}", Completeness::complete},
        CompletenessCase{"OpenBrace", "int f() {", Completeness::incomplete},
        CompletenessCase{"OpenCall", "f(1,", Completeness::incomplete},
        CompletenessCase{"OpenComment", "/* a", Completeness::incomplete},
        CompletenessCase{"Comment", "// {\n1", Completeness::complete},
        CompletenessCase{"BraceInString", "\"{\"", Completeness::complete},
        CompletenessCase{"BraceAsCharacter", "'{'", Completeness::complete},
        CompletenessCase{"EscapedQuote", "\"\\\"{\"", Completeness::complete},
        CompletenessCase{"Separator", "1'000 + 2'0", Completeness::complete},
        CompletenessCase{"RawString", "R\"(\"{)\"", Completeness::complete},
        CompletenessCase{
            "WideRawString", "LR\"(\"{)\"", Completeness::complete},
        CompletenessCase{
            "Utf8RawString", "f(u8R\"x({)\"{)x\")", Completeness::complete},
        CompletenessCase{
            "OpenWideRawString", "UR\"(\"", Completeness::incomplete},
        CompletenessCase{
            "WideCharacters",
            "L'{' + u'{' + U'{' + u8'{'",
            Completeness::complete},
        CompletenessCase{
            "NameBeforeQuote", "0xfU'1 {", Completeness::incomplete},
        CompletenessCase{
            "OpenRawString", "R\"x( )\"", Completeness::incomplete},
        CompletenessCase{"Macro", "#define A {\n1", Completeness::complete},
        CompletenessCase{"ExtraBracket", "f())", Completeness::invalid}),
    [](const auto& test) { return test.param.name; });

TEST(WithDisplay, LeavesStatementsAlone) {
  for (const char* code :
       {"x = 1;",
        "int f() {\n}",
        "#include <map>",
        "// x",
        "",
        "f(1); // x",
        "for (;;) {\n}\n",
        "int f() {"}) {
    EXPECT_EQ(with_display(code, "In[1]"), code);
  }
}

TEST(WithDisplay, ShowsTheLastExpressionAtItsLineAndColumn) {
  EXPECT_EQ(
      with_display("int a = 3;\n  a + 1 // sum", "In[2]"),
      "int a = 3;\n  ::accelerate_notebook::display((\n#line 2 \"In[2]\"\n"
      "  a + 1\n)); // sum");
}

TEST(WithDisplay, TreatsABracedValueAsTheStartOfAnExpression) {
  EXPECT_EQ(
      with_display("V{1}.size()", "In[1]"),
      "::accelerate_notebook::display((\n#line 1 \"In[1]\"\nV{1}.size()\n));");
}

TEST(Positions, CountCharactersOfSeveralBytes) {
  const std::string text = "aé∑x";

  EXPECT_EQ(byte_position(text, 0), 0U);
  EXPECT_EQ(byte_position(text, 2), 3U);
  EXPECT_EQ(byte_position(text, 3), 6U);
  EXPECT_EQ(byte_position(text, 99), 7U);
  EXPECT_EQ(character_position(text, 6), 3U);
  EXPECT_EQ(character_position(text, 99), 4U);
}

}  // namespace
}  // namespace accelerate::jupyter
