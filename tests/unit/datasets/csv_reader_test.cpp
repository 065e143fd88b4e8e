// SPDX-License-Identifier: Apache-2.0
#include "datasets/csv_reader.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace transformers::datasets {
namespace {

using Records = std::vector<std::vector<std::string>>;

Records records_of(std::string_view text, const CsvFormat& format = {}) {
  CsvReader reader(text, format, "f.csv");
  Records records;
  while (reader.next()) {
    auto& record = records.emplace_back();
    for (const CsvCell& cell : reader.cells()) {
      record.push_back(cell.text());
    }
  }
  return records;
}

struct CsvCase {
  const char* name;
  std::string_view text;
  Records records;
  CsvFormat format = {};
};

class CsvReaderCases : public testing::TestWithParam<CsvCase> {};

TEST_P(CsvReaderCases, AreParsed) {
  EXPECT_EQ(records_of(GetParam().text, GetParam().format), GetParam().records);
}

using namespace std::string_view_literals;

INSTANTIATE_TEST_SUITE_P(
    Table,
    CsvReaderCases,
    testing::Values(
        CsvCase{"Nothing", "", {}},
        CsvCase{"OneCell", "a", {{"a"}}},
        CsvCase{"OneEmptyQuotedCell", "\"\"", {{""}}},
        CsvCase{"LineFeeds", "a,b\nc,d\n", {{"a", "b"}, {"c", "d"}}},
        CsvCase{"CarriageReturns", "a,b\r\nc,d\r\n", {{"a", "b"}, {"c", "d"}}},
        CsvCase{"NoLastLineEnd", "a,b\nc,d", {{"a", "b"}, {"c", "d"}}},
        CsvCase{"LastCarriageReturnAlone", "a,b\r", {{"a", "b"}}},
        CsvCase{"OldMacLines", "a,b\rc\r\rd", {{"a", "b"}, {"c"}, {"d"}}},
        CsvCase{"CarriageReturnInQuotes", "\"a\rb\",c", {{"a\rb", "c"}}},
        CsvCase{"EmptyCells", ",\n,,\n", {{"", ""}, {"", "", ""}}},
        CsvCase{"EmptyLines", "\n\r\na\n\n\nb\n\n", {{"a"}, {"b"}}},
        CsvCase{"BlankLines", " \t \na\n \r \t\nb\n  ", {{"a"}, {"b"}}},
        CsvCase{"BlankCells", " ,\n ,  \n", {{" ", ""}, {" ", "  "}}},
        CsvCase{
            "DelimiterIsNoSpace", "\t\n \t \n", {{"", ""}, {" ", " "}}, {'\t'}},
        CsvCase{"LastCellEmpty", "a,", {{"a", ""}}},
        CsvCase{"Quoted", "\"a,b\",c", {{"a,b", "c"}}},
        CsvCase{"DoubledQuotes", "\"a \"\"b\"\"\"", {{"a \"b\""}}},
        CsvCase{"TextAfterAQuote", "\"a\"b\"c\" ,d", {{"ab\"c\" ", "d"}}},
        CsvCase{"DoubledQuotesAndText", "\"a\"\"b\"c", {{"a\"bc"}}},
        CsvCase{"OnlyDoubledQuotes", "\"\"\"\"", {{"\""}}},
        CsvCase{"NewlineInQuotes", "\"a\nb\r\nc\",d\n", {{"a\nb\r\nc", "d"}}},
        CsvCase{"QuoteInsideACell", "a\"b,c\"\n", {{"a\"b", "c\""}}},
        CsvCase{"SpacesAreKept", " a , b ", {{" a ", " b "}}},
        CsvCase{
            "ByteOrderMark",
            "\xEF\xBB\xBF"
            "a,b",
            {{"a", "b"}}},
        CsvCase{"Nul", "a\0b,c"sv, {{std::string("a\0b", 3), "c"}}},
        CsvCase{"Tabs", "a\t\"b\tc\"\td,e", {{"a", "b\tc", "d,e"}}, {'\t'}},
        CsvCase{
            "WithoutQuoting",
            "\"a\t\"\"b\nc\"\t\"",
            {{"\"a", "\"\"b"}, {"c\"", "\""}},
            {'\t', false}}),
    [](const auto& test) { return test.param.name; });

TEST(CsvReader, ReportsThePositionOfAnUnclosedQuote) {
  EXPECT_EQ(
      accelerate::message_of<accelerate::FormatError>(
          [] { records_of("a,b\nc,\"d\n\ne,f\n"); }),
      "f.csv:2:3: the quote that opens here is never closed");
}

TEST(CsvReader, CountsEveryKindOfLineEnd) {
  EXPECT_EQ(
      accelerate::message_of<accelerate::FormatError>(
          [] { records_of("a\r\nb\rc\n\rd,\"e"); }),
      "f.csv:5:3: the quote that opens here is never closed");
}

TEST(CsvReader, ReturnsTheTextOfACellAtAnOffset) {
  CsvReader reader("a, ,\"b\"\"\"c\n", {}, "f.csv");

  EXPECT_EQ(reader.text_at(2), " ");
  EXPECT_EQ(reader.text_at(4), "b\"c");
}

TEST(CsvReader, ContinuesAtTheStartOfARecord) {
  const std::string text = "a,b\n\"c\nc\",d\n\ne,f\n";
  CsvReader reader(text, {}, "f.csv");
  std::vector<std::size_t> offsets;
  while (reader.next()) {
    offsets.push_back(reader.record_offset());
  }

  reader.seek(offsets.at(1));
  ASSERT_TRUE(reader.next());

  EXPECT_EQ(offsets, (std::vector<std::size_t>{0, 4, 13}));
  EXPECT_EQ(reader.cells()[0].text(), "c\nc");
}

}  // namespace
}  // namespace transformers::datasets
