// SPDX-License-Identifier: Apache-2.0
#include "jupyter/cell_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/notebook_launch.h"
#include "base/str_cat.h"
#include "jupyter/interpreter_protocol.h"

namespace accelerate::jupyter {
namespace {

using Pieces = std::vector<OutputPiece>;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string kBlanks = "\r" + std::string(kTerminalColumns, ' ') + "\r";

OutputPiece text(const std::string& text) {
  return {OutputPiece::Kind::text, text};
}
OutputPiece bar(const std::string& state) {
  return {OutputPiece::Kind::bar, state};
}
const OutputPiece kBarEnd{OutputPiece::Kind::bar_end};

std::string drawn(const std::string& state) {
  return str_cat(kNotebookBarBegin, state, kNotebookBarEnd);
}

TEST(CellOutput, IsTextWithoutBars) {
  CellOutput output;

  EXPECT_THAT(output.add("a\nb"), ElementsAre(text("a\nb")));
  EXPECT_THAT(output.add("\xFF"), ElementsAre(text("\xEF\xBF\xBD")));
  EXPECT_THAT(output.add("\xC3"), IsEmpty());
  EXPECT_THAT(output.add("\xA9"), ElementsAre(text("é")));
}

TEST(CellOutput, WritesSpacesOverAClearedLine) {
  CellOutput output;

  EXPECT_THAT(
      output.add("a\r\x1b[Kb\r\x1b[K"),
      ElementsAre(text("a" + kBlanks + "b" + kBlanks)));
  EXPECT_THAT(output.add("50%\r"), ElementsAre(text("50%")));
  EXPECT_THAT(output.add("51%"), ElementsAre(text("\r51%")));
  EXPECT_THAT(output.add("60%\r\x1b["), ElementsAre(text("60%")));
  EXPECT_THAT(output.add("K70%"), ElementsAre(text(kBlanks + "70%")));
  EXPECT_THAT(output.add("\n\r\x1b[K"), ElementsAre(text("\n")));
}

TEST(CellOutput, GivesTheStatesOfABarAndItsEnd) {
  CellOutput output;

  EXPECT_THAT(
      output.add(drawn("0%") + drawn("50%")),
      ElementsAre(bar("0%"), bar("50%")));
  EXPECT_THAT(
      output.add(drawn("100%") + "\n"), ElementsAre(bar("100%"), kBarEnd));
  EXPECT_THAT(output.add("done\n"), ElementsAre(text("done\n")));
}

TEST(CellOutput, FindsTheEndOfABarInTheNextBytes) {
  CellOutput output;

  EXPECT_THAT(output.add(drawn("100%")), ElementsAre(bar("100%")));
  EXPECT_THAT(output.add("\nx"), ElementsAre(kBarEnd, text("x")));
}

TEST(CellOutput, KeepsABarOpenWhenTextFollows) {
  CellOutput output;

  EXPECT_THAT(
      output.add(drawn("50%") + "warning: x\n" + drawn("60%")),
      ElementsAre(bar("50%"), text("warning: x\n"), bar("60%")));
}

TEST(CellOutput, WaitsForTheRestOfABar) {
  const std::string whole = "a\n" + drawn("50%") + "\n";
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    CellOutput output;
    Pieces pieces = output.add(whole.substr(0, cut));
    for (OutputPiece& piece : output.add(whole.substr(cut))) {
      pieces.push_back(std::move(piece));
    }
    std::string all_text;
    Pieces others;
    for (const OutputPiece& piece : pieces) {
      if (piece.kind == OutputPiece::Kind::text) {
        all_text += piece.text;
      } else {
        others.push_back(piece);
      }
    }
    EXPECT_EQ(all_text, "a\n") << cut;
    EXPECT_THAT(others, ElementsAre(bar("50%"), kBarEnd)) << cut;
  }
}

// The launcher prints the bars of several ranks in this format.
TEST(CellOutput, KeepsThePrefixOfARank) {
  CellOutput output;
  const std::string state =
      "[0] " + drawn("50%").substr(1);  // without the carriage return

  EXPECT_THAT(output.add("\r\x1b[K" + state), ElementsAre(bar("[0] 50%")));
  EXPECT_THAT(
      output.add("\r\x1b[K[1] hello\n" + state),
      ElementsAre(text("[1] hello\n"), bar("[0] 50%")));
}

TEST(CellOutput, ReturnsTheRestAtTheEndOfACell) {
  CellOutput output;

  EXPECT_THAT(output.add("a\x1b_50"), ElementsAre(text("a")));
  EXPECT_THAT(output.finish(), ElementsAre(text("\x1b_50")));
  EXPECT_THAT(output.finish(), IsEmpty());
}

}  // namespace
}  // namespace accelerate::jupyter
