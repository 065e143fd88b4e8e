// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"
#include "transformers/dataset.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::FormatError;
using accelerate::message_of;
using accelerate::TemporaryFolder;
using enum ColumnType;

Dataset load(
    const std::string& format,
    std::string_view text,
    const LoadDatasetOptions& options = {}) {
  const TemporaryFolder folder;
  // The mapping outlives the name.
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

struct GuessCase {
  const char* name;
  const char* cells;
  ColumnType type;
};

class GuessesType : public testing::TestWithParam<GuessCase> {};

TEST_P(GuessesType, FromAllCells) {
  const auto data = load("csv", std::string("a,b\n") + GetParam().cells);

  EXPECT_EQ(data.columns()[0].type, GetParam().type);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    GuessesType,
    testing::Values(
        GuessCase{"Integers", "1,\n-2,\n+3,\n", integer},
        GuessCase{"IntegersAndGaps", "1,\n,x\n3,\n", integer},
        GuessCase{"Reals", "1.5,\n2,\n-1e3,\n", real},
        GuessCase{"RealAfterInteger", "2,\n1.5,\n2,\n", real},
        GuessCase{"NotANumberIsReal", "nan,\n1,\n", real},
        GuessCase{"Booleans", "true,\nFalse,\nTRUE,\n", boolean},
        GuessCase{"BooleansAndNumbers", "true,\n1,\n", string},
        GuessCase{"Words", "1,\nx,\n", string},
        GuessCase{"WordFirst", "x,\n1,\n2,\n", string},
        GuessCase{"OnlyGaps", ",x\n,y\n", string},
        GuessCase{"NoRows", "", string},
        GuessCase{"TooLargeForAnInteger", "99999999999999999999,\n", string},
        GuessCase{"LargestInteger", "9223372036854775807,\n", integer},
        GuessCase{"SpaceAround", " 1,\n", string},
        GuessCase{"Hexadecimal", "0x10,\n", string},
        GuessCase{"QuotedNumber", "\"7\",\n", integer}),
    [](const auto& each) { return each.param.name; });

TEST(LoadDataset, GivesAMissingValueForAnEmptyCell) {
  const auto data = load("csv", "n,s\n1,a\n,\n");

  EXPECT_EQ(data.get(1).at("n"), Value());
  EXPECT_EQ(data.get(1).text("s"), "");
  EXPECT_EQ(
      message_of<ArgumentError>([&] { data.get(1).integer("n"); }),
      "column `n` holds no value in this row, not a whole number of 64 bits");
}

TEST(LoadDataset, TakesTypesThatAreGiven) {
  const auto data = load(
      "csv", "id,n\n007,1\n", {.column_types = {{"id", string}, {"n", real}}});

  EXPECT_EQ(data.get(0).text("id"), "007");
  EXPECT_EQ(data.get(0).at("n"), Value(1.0));
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

TEST(LoadDataset, JoinsFiles) {
  const TemporaryFolder folder;
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
  const char* message;  // After the path.
  LoadDatasetOptions options = {};
};

class RefusesFile : public testing::TestWithParam<BadFile> {};

TEST_P(RefusesFile, WithItsPlace) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", GetParam().text);

  const auto message = message_of<FormatError>([&] {
    static_cast<void>(
        load_dataset(GetParam().format, path, GetParam().options));
  });

  EXPECT_EQ(message, path.string() + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    RefusesFile,
    testing::Values(
        BadFile{
            "NoHeader",
            "csv",
            "",
            ":1:1: the file is empty, a header line was expected"},
        BadFile{
            "ShortRow",
            "csv",
            "a,b,c\n1,2,3\n4,5\n",
            ":3:3: a row of 2 cells, there are 3 columns"},
        BadFile{
            "LongRow",
            "csv",
            "a,b\n1,2,3\n",
            ":2:5: a row of 3 cells, there are 2 columns"},
        BadFile{
            "NameTwice", "csv", "a,b,a\n", ":1:5: the header names `a` twice"},
        BadFile{
            "NoName",
            "csv",
            "a,,b\n",
            ":1:3: a column of the header has no name"},
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
            ":3:3: column `label`: `one` is not a whole number of 64 bits",
            {.column_types = {{"label", integer}}}},
        BadFile{
            "JsonSyntax",
            "json",
            "{\"a\": 1}\n{\"a\": }\n",
            ":2:7: syntax error while parsing value - unexpected '}'; expected "
            "'[', '{', or a literal"},
        BadFile{"JsonNumber", "json", "1\n", ":1:1: not an object"},
        BadFile{
            "JsonList",
            "json",
            "[{\"a\": 1}]\n",
            ":1:1: a list, not an object; write one object a line"},
        BadFile{
            "JsonObjectInside",
            "json",
            "{\"a\": {}}\n",
            ":1:1: column `a`: an object; rows hold text, numbers, truth "
            "values and lists"},
        BadFile{
            "JsonMixedList",
            "json",
            "{\"a\": [1, \"x\"]}\n",
            ":1:1: column `a`: a list of unlike or nested elements"},
        BadFile{
            "JsonOtherType",
            "json",
            "{\"a\": 1}\n{\"a\": \"x\"}\n",
            ":2:1: column `a`: a string, others are a whole number of 64 bits"},
        BadFile{
            "JsonListAfterText",
            "json",
            "{\"a\": \"x\"}\n{\"a\": []}\n",
            ":2:1: column `a`: a list, others are a string"},
        BadFile{
            "JsonTextAfterList",
            "json",
            "{\"a\": []}\n{\"a\": \"x\"}\n",
            ":2:1: column `a`: a string, others are lists"},
        BadFile{
            "JsonNotTheGivenType",
            "json",
            "{\"a\": 1.5}\n",
            ":1:1: column `a`: a number, not a whole number of 64 bits",
            {.column_types = {{"a", integer}}}}),
    [](const auto& each) { return each.param.name; });

TEST(LoadDataset, NamesTheFileWithAnotherHeader) {
  const TemporaryFolder folder;
  const auto one = folder.write("1", "a,b\n");
  const auto two = folder.write("2", "b,a\n");

  EXPECT_EQ(
      message_of<FormatError>(
          [&] { static_cast<void>(load_dataset("csv", {one, two})); }),
      two.string() + ":1:1: the header is not that of " + one.string());
}

TEST(LoadDataset, NamesAFileThatIsMissing) {
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

class RefusesOptions : public testing::TestWithParam<BadOptions> {};

TEST_P(RefusesOptions, AndSaysWhy) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(
            load(GetParam().format, "{\"a\": 1}\n", GetParam().options));
      }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    RefusesOptions,
    testing::Values(
        BadOptions{
            "Format",
            "parquet",
            {},
            "format `parquet` is not one of csv, tsv, json, text"},
        BadOptions{
            "DelimiterOfJson",
            "json",
            {.delimiter = ';'},
            "`delimiter` means nothing to the format `json`"},
        BadOptions{
            "QuotingOfText",
            "text",
            {.quoting = false},
            "`quoting` means nothing to the format `text`"},
        BadOptions{
            "TypesOfText",
            "text",
            {.column_types = {{"text", string}}},
            "`column_types` means nothing to the format `text`"},
        BadOptions{
            "UnknownColumn",
            "json",
            {.column_types = {{"b", string}}},
            "`column_types` names `b`, the files have a"},
        BadOptions{
            "ListInCsv",
            "csv",
            {.column_types = {{"a", integers}}},
            "column `a`: a cell of CSV cannot be a list of whole numbers"},
        BadOptions{
            "QuoteAsDelimiter",
            "csv",
            {.delimiter = '"'},
            "a quote or a line end cannot stand between cells"},
        BadOptions{
            "NameTwice",
            "csv",
            {.column_names = {"a", "a"}},
            "`column_names` has `a` twice"}),
    [](const auto& each) { return each.param.name; });

TEST(LoadDataset, WantsAFile) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        static_cast<void>(
            load_dataset("csv", std::vector<std::filesystem::path>()));
      }),
      "`load_dataset` was given no file");
}

}  // namespace
}  // namespace transformers
