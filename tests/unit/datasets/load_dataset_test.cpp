// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "transformers/dataset.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::FormatError;
using accelerate::message_of;
using accelerate::TemporaryDirectory;
using enum ColumnType;

Dataset load(
    const std::string& format,
    std::string_view text,
    const LoadDatasetOptions& options = {}) {
  const TemporaryDirectory folder;
  // The memory mapping remains valid after the file is removed.
  return load_dataset(format, folder.write("f", text), options);
}

TEST(LoadDataset, ReadsCsvByColumn) {
  const auto data =
      load("csv", "id,text,score\n1,\"a, b\",0.5\n2,\"c\nd\",1\n");

  EXPECT_EQ(
      data.columns(),
      (std::vector<Column>{
          {"id", integer}, {"text", string}, {"score", real}}));
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.get(0).integer("id"), 1);
  EXPECT_EQ(data.get(0).text("text"), "a, b");
  EXPECT_EQ(data.get(1).text("text"), "c\nd");
  EXPECT_EQ(data.get(1).real("score"), 1.0);
}

struct InferenceCase {
  const char* name;
  const char* cells;
  ColumnType type;
};

class ColumnTypeInference : public testing::TestWithParam<InferenceCase> {};

TEST_P(ColumnTypeInference, UsesAllCells) {
  const auto data = load("csv", std::string("a,b\n") + GetParam().cells);

  EXPECT_EQ(data.columns()[0].type, GetParam().type);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ColumnTypeInference,
    testing::Values(
        InferenceCase{"Integers", "1,\n-2,\n+3,\n", integer},
        InferenceCase{"IntegersAndGaps", "1,\n,x\n3,\n", real},
        InferenceCase{"Reals", "1.5,\n2,\n-1e3,\n", real},
        InferenceCase{"RealAfterInteger", "2,\n1.5,\n2,\n", real},
        InferenceCase{"MissingWordIsNoText", "nan,\n1,\n", real},
        InferenceCase{"Booleans", "true,\nFalse,\nTRUE,\n", boolean},
        InferenceCase{"BooleansAndNumbers", "true,\n1,\n", string},
        InferenceCase{"Words", "1,\nx,\n", string},
        InferenceCase{"WordFirst", "x,\n1,\n2,\n", string},
        InferenceCase{"OnlyGaps", ",x\n,y\n", real},
        InferenceCase{"NoRows", "", string},
        InferenceCase{"LargestInteger", "9223372036854775807,\n", integer},
        InferenceCase{"SpaceAround", " 1,\n", integer},
        InferenceCase{"Hexadecimal", "0x10,\n", string},
        InferenceCase{"QuotedNumber", "\"7\",\n", integer}),
    [](const auto& test) { return test.param.name; });

TEST(LoadDataset, ReadsAnEmptyCellAsAMissingValue) {
  const auto data = load("csv", "n,s\n1,a\n,\n");

  EXPECT_EQ(data.get(1).at("n"), Value());
  EXPECT_EQ(data.get(1).at("s"), Value());
  EXPECT_EQ(
      message_of<ArgumentError>([&] { data.get(1).real("n"); }),
      "column `n` has no value in this row; expected a number");
}

TEST(LoadDataset, KeepsWordsForMissingValuesAsTextIfAsked) {
  const auto data = load("csv", "n,s\nNA,a\n1\n", {.keep_default_na = false});

  EXPECT_EQ(data.get(0).text("n"), "NA");
  EXPECT_EQ(data.get(1).text("s"), "");
}

TEST(LoadDataset, UsesExplicitTypes) {
  const auto data = load(
      "csv", "id,n\n007,1\n", {.column_types = {{"id", string}, {"n", real}}});

  EXPECT_EQ(data.get(0).text("id"), "007");
  EXPECT_EQ(data.get(0).at("n"), Value(1.0));
}

TEST(LoadDataset, UsesExplicitTypesForValuesThatHaveNoType) {
  const auto csv = load(
      "csv",
      "a,b,c,d\n9223372036854775808,9223372036854775808,7.0,\nNA,,,true\n",
      {.column_types = {
           {"a", string}, {"b", real}, {"c", integer}, {"d", boolean}}});
  const auto json = load(
      "json",
      "{\"a\": \"2024-01-01\", \"b\": 2.0}\n",
      {.column_types = {{"a", string}, {"b", integer}}});

  EXPECT_EQ(
      csv.get(0),
      (Row{{"a", "9223372036854775808"}, {"b", 0x1p63}, {"c", 7}, {"d", {}}}));
  EXPECT_EQ(csv.get(1), (Row{{"a", {}}, {"b", {}}, {"c", {}}, {"d", true}}));
  EXPECT_EQ(json.get(0), (Row{{"a", "2024-01-01"}, {"b", 2}}));
}

TEST(LoadDataset, CombinesTheTypesOfFilesThatPythonRefusesToCombine) {
  const auto load_files = [](const std::vector<std::string>& texts) {
    const TemporaryDirectory folder;
    std::vector<std::filesystem::path> paths;
    for (const std::string& text : texts) {
      paths.push_back(folder.write(std::to_string(paths.size()), text));
    }
    return load_dataset("csv", paths);
  };
  const std::string gaps = "a\n" + [] {
    std::string text;
    for (int i = 0; i < 10'000; ++i) {
      text += "NA\n";
    }
    return text;
  }();

  EXPECT_EQ(load_files({"a\n1\n", "a\n0.5\n"}).get(0).at("a"), Value(1.0));
  EXPECT_EQ(load_files({"a\n007\n", "a\nx\n"}).get(0).at("a"), Value("007"));
  EXPECT_EQ(load_files({"a\nNA\n", "a\n1\n"}).get(1).at("a"), Value(1));
  EXPECT_EQ(
      load_files({gaps + "0.5\n", "a\n1\n"}).get(10'001).at("a"), Value(1.0));
}

TEST(LoadDataset, ReadsCsvWithoutAHeader) {
  const auto data = load("csv", "1,a\n2,b\n", {.column_names = {"n", "s"}});

  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.get(0), (Row{{"n", 1}, {"s", "a"}}));
}

TEST(LoadDataset, ReadsTsvWithoutQuoting) {
  const auto data = load("tsv", "a\tb\n\"x\t1\n", {.quoting = false});

  EXPECT_EQ(data.get(0), (Row{{"a", "\"x"}, {"b", 1}}));
}

TEST(LoadDataset, ConcatenatesFiles) {
  const TemporaryDirectory folder;
  const auto data = load_dataset(
      "csv",
      {folder.write("1.csv", "a,b\n1,x\n2,y\n"),
       folder.write("2.csv", "a,b\n"),
       folder.write(
           "3.csv",
           "\xEF\xBB\xBF"
           "a,b\r\n2.5,z\r\n")});

  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.get(1), (Row{{"a", 2.0}, {"b", "y"}}));
  EXPECT_EQ(data.get(2), (Row{{"a", 2.5}, {"b", "z"}}));
}

TEST(LoadDataset, ReadsJsonLines) {
  const auto data = load(
      "json",
      "{\"t\": \"a\", \"ids\": [1, 2], \"n\": 1}\n"
      "\r\n"
      "{\"n\": 2.5, \"ids\": [], \"x\": true, \"words\": [\"u\", \"v\"]}\n"
      "{\"t\": null, \"scores\": [1, 0.5], \"words\": []}");

  EXPECT_EQ(
      data.columns(),
      (std::vector<Column>{
          {"t", string},
          {"ids", integers},
          {"n", real},
          {"x", boolean},
          {"words", strings},
          {"scores", reals}}));
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.get(0).integers("ids"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(data.get(0).real("n"), 1.0);
  EXPECT_EQ(data.get(0).at("x"), Value());
  EXPECT_EQ(data.get(1).integers("ids").size(), 0U);
  EXPECT_EQ(data.get(1).boolean("x"), true);
  EXPECT_EQ(data.get(2).strings("words").size(), 0U);
  EXPECT_EQ(data.get(2).reals("scores"), (std::vector<double>{1, 0.5}));
}

TEST(LoadDataset, ReadsTextLines) {
  const auto data = load("text", "one\r\n\ntwo");

  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.get(0).text("text"), "one");
  EXPECT_EQ(data.get(1).text("text"), "");
  EXPECT_EQ(data.get(2).text("text"), "two");
}

struct BadFile {
  const char* name;
  const char* format;
  std::string_view text;
  const char* message;  // The error text after the path.
  LoadDatasetOptions options = {};
};

class MalformedFile : public testing::TestWithParam<BadFile> {};

TEST_P(MalformedFile, IsReportedWithItsPosition) {
  const TemporaryDirectory folder;
  const auto path = folder.write("f", GetParam().text);

  const auto message = message_of<FormatError>([&] {
    static_cast<void>(
        load_dataset(GetParam().format, path, GetParam().options));
  });

  EXPECT_EQ(message, path.string() + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    MalformedFile,
    testing::Values(
        BadFile{
            "NoHeader",
            "csv",
            "",
            ":1:1: the file is empty; expected a header line"},
        BadFile{
            "LongRow",
            "csv",
            "a,b\n1,2,3\n",
            ":2:5: the row has 3 cells, but the table has 2 columns"},
        BadFile{
            "LargeInteger",
            "csv",
            "a,b\n1,2\n3,99999999999999999999\n",
            ":3:3: column `b`: `99999999999999999999` does not fit in a 64-bit "
            "integer"},
        BadFile{
            "UnclosedList",
            "json",
            "[{\"a\": 1},\n",
            ":1:1: the list that begins here is never closed"},
        BadFile{
            "TextAfterAList",
            "json",
            "[{\"a\": 1}]\n{}",
            ":2:1: unexpected text after the list"},
        BadFile{
            "NoCommaInAList",
            "json",
            "[{\"a\": 1}\n {}]",
            ":2:2: expected `,` or `]` after an element of the list"},
        BadFile{"NoElementInAList", "json", "[{},,{}]", ":1:5: unexpected `,`"},
        BadFile{
            "SpaceBeforeAList",
            "json",
            " [{}]",
            ":1:2: whitespace before the `[` of the list is not supported"},
        BadFile{
            "UnclosedObject",
            "json",
            "{\"a\": 1}\r{\"a\": 1",
            ":2:8: syntax error while parsing object - unexpected end of "
            "input; "
            "expected '}'"},
        BadFile{
            "Dates",
            "json",
            "{\"a\": null}\n{\"a\": \"2024-01-01\"}\n",
            ":2:1: column `a` holds only dates or times such as `2024-01-01`, "
            "which Hugging Face Datasets does not read as text"},
        BadFile{
            "NotUtf8",
            "csv",
            "a\nb\xFF\n",
            ":2:2: byte 3 of the file is not UTF-8"},
        BadFile{
            "Utf16",
            "text",
            "\xFF\xFE",
            ":1:1: byte 0 of the file is not UTF-8"},
        BadFile{
            "WrongType",
            "csv",
            "a,label\nx,0\ny,one\n",
            ":3:3: column `label`: `one` is not a 64-bit integer",
            {.column_types = {{"label", integer}}}},
        BadFile{
            "JsonSyntax",
            "json",
            "{\"a\": 1}\n{\"a\": }\n",
            ":2:7: syntax error while parsing value - unexpected '}'; expected "
            "'[', '{', or a literal"},
        BadFile{
            "JsonNumber", "json", "1\n", ":1:1: expected an object, found `1`"},
        BadFile{
            "JsonNumberInAList",
            "json",
            "[{}, 1]\n",
            ":1:6: expected an object, found `1`"},
        BadFile{
            "JsonObjectInside",
            "json",
            "{\"a\": {}}\n",
            ":1:1: column `a` is `{}`, an object; only text, numbers, booleans "
            "and lists of text or numbers are supported"},
        BadFile{
            "JsonMixedList",
            "json",
            "{\"a\": [1, \"x\"]}\n",
            ":1:1: column `a` is `[1,\"x\"]`; a list must contain only text or "
            "only numbers"},
        BadFile{
            "JsonOtherType",
            "json",
            "{\"a\": 1}\n{\"a\": \"x\"}\n",
            ":2:1: column `a` is a string, but in other rows it is a 64-bit "
            "integer"},
        BadFile{
            "JsonListAfterText",
            "json",
            "{\"a\": \"x\"}\n{\"a\": []}\n",
            ":2:1: column `a` is a list, but in other rows it is a string"},
        BadFile{
            "JsonTextAfterList",
            "json",
            "{\"a\": []}\n{\"a\": \"x\"}\n",
            ":2:1: column `a` is a string, but in other rows it is a list"},
        BadFile{
            "JsonNotTheExplicitType",
            "json",
            "{\"a\": 1.5}\n",
            ":1:1: column `a` is a number, not a 64-bit integer",
            {.column_types = {{"a", integer}}}}),
    [](const auto& test) { return test.param.name; });

TEST(LoadDataset, ReportsTheFileWithADifferentHeader) {
  const TemporaryDirectory folder;
  const auto first = folder.write("1", "a,b\n");
  const auto second = folder.write("2", "b,a\n");

  EXPECT_EQ(
      message_of<FormatError>(
          [&] { static_cast<void>(load_dataset("csv", {first, second})); }),
      second.string() + ":1:1: the header is different from the header of " +
          first.string());
}

TEST(LoadDataset, ReportsAMissingFile) {
  EXPECT_EQ(
      message_of<accelerate::IoError>(
          [] { static_cast<void>(load_dataset("csv", "/no/such/file")); }),
      "cannot read /no/such/file: No such file or directory");
  EXPECT_EQ(
      message_of<accelerate::IoError>(
          [] { static_cast<void>(load_dataset("text", "/")); }),
      "cannot read /: Is a directory");
}

struct BadOptions {
  const char* name;
  const char* format;
  LoadDatasetOptions options;
  const char* message;
};

class WrongOptions : public testing::TestWithParam<BadOptions> {};

TEST_P(WrongOptions, AreRejected) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(
            load(GetParam().format, "{\"a\": 1}\n", GetParam().options));
      }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    WrongOptions,
    testing::Values(
        BadOptions{
            "Format",
            "parquet",
            {},
            "the format is `parquet`, but must be one of csv, tsv, json, text"},
        BadOptions{
            "DelimiterOfJson",
            "json",
            {.delimiter = ';'},
            "the format `json` does not use `delimiter`"},
        BadOptions{
            "QuotingOfText",
            "text",
            {.quoting = false},
            "the format `text` does not use `quoting`"},
        BadOptions{
            "TypesOfText",
            "text",
            {.column_types = {{"text", string}}},
            "the format `text` does not use `column_types`"},
        BadOptions{
            "UnknownColumn",
            "json",
            {.column_types = {{"b", string}}},
            "`column_types` names the column `b`, but the columns are a"},
        BadOptions{
            "ListInCsv",
            "csv",
            {.column_types = {{"a", integers}}},
            "column `a`: a CSV cell cannot be a list of integers"},
        BadOptions{
            "QuoteAsDelimiter",
            "csv",
            {.delimiter = '"'},
            "`delimiter` cannot be a quote or a line break"},
        BadOptions{
            "NameTwice",
            "csv",
            {.column_names = {"a", "a"}},
            "`column_names` contains `a` twice"}),
    [](const auto& test) { return test.param.name; });

TEST(LoadDataset, NeedsAFile) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(
            load_dataset("csv", std::vector<std::filesystem::path>()));
      }),
      "`load_dataset` got no files");
}

}  // namespace
}  // namespace transformers
