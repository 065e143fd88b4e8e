// SPDX-License-Identifier: Apache-2.0
#include "transformers/dataset.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::message_of;

Dataset numbers(std::int64_t count) {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back({{"n", i}, {"text", std::to_string(i)}});
  }
  return Dataset::from_rows(rows);
}

std::vector<std::int64_t> values_of(const Dataset& data) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    values.push_back(data.get(i).integer("n"));
  }
  return values;
}

using Numbers = std::vector<std::int64_t>;

TEST(Dataset, SelectsRowsOfASelection) {
  const auto odd = numbers(10).select({9, 7, 5, 3, 1});

  EXPECT_EQ(values_of(odd.select({4, 0, 0})), (Numbers{1, 9, 9}));
}

TEST(Dataset, FiltersInOrderWithAnyNumberOfThreads) {
  const auto keep = [](const Row& row) { return row.integer("n") % 7 == 3; };
  const auto data = numbers(5000);

  const auto single_thread = values_of(data.filter(keep));
  const auto four_threads = values_of(data.filter(keep, 4));

  EXPECT_EQ(single_thread.size(), 714U);
  EXPECT_EQ(single_thread[1], 10);
  EXPECT_EQ(single_thread, four_threads);
}

TEST(Dataset, ShufflesDependingOnlyOnTheSeed) {
  const auto data = numbers(1000);

  const auto order = values_of(data.shuffle(7));

  EXPECT_EQ(order, values_of(numbers(1000).shuffle(7)));
  EXPECT_NE(order, values_of(data.shuffle(8)));
  EXPECT_NE(order, values_of(data));
  EXPECT_TRUE(
      std::is_permutation(order.begin(), order.end(), values_of(data).begin()));
  // Results of programs depend on this order, so it must not change.
  EXPECT_EQ(values_of(numbers(5).shuffle(42)), (Numbers{1, 2, 0, 4, 3}));
}

TEST(Dataset, SplitsWithoutACommonRow) {
  const auto [train, test] =
      numbers(10).train_test_split({.test_size = 0.21, .seed = 3});

  EXPECT_EQ(train.size(), 7);
  EXPECT_EQ(test.size(), 3);
  auto all = values_of(train);
  const auto rest = values_of(test);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 10U);
}

TEST(Dataset, SplitsAtTheEndWithoutShuffling) {
  const auto [train, test] =
      numbers(5).train_test_split({.test_rows = 2, .shuffle = false});

  EXPECT_EQ(values_of(train), (Numbers{0, 1, 2}));
  EXPECT_EQ(values_of(test), (Numbers{3, 4}));
}

TEST(Dataset, RenamesAndRemovesColumns) {
  const auto data = numbers(3).rename_column("text", "t");

  EXPECT_EQ(data.get(2), (Row{{"n", 2}, {"t", "2"}}));
  EXPECT_EQ(data.remove_columns({"n"}).get(1), (Row{{"t", "1"}}));
  EXPECT_EQ(
      data.remove_columns({"n"}).rename_column("t", "n").get(1),
      (Row{{"n", "1"}}));
}

TEST(Dataset, HasAFingerprintOfItsContent) {
  const auto data = numbers(10);

  EXPECT_EQ(data.fingerprint(), numbers(10).fingerprint());
  EXPECT_EQ(
      data.select({1, 2}).fingerprint(), data.select({1, 2}).fingerprint());
  std::set<std::string> different = {
      data.fingerprint(),
      numbers(11).fingerprint(),
      data.select({1, 2}).fingerprint(),
      data.select({2, 1}).fingerprint(),
      data.shuffle(1).fingerprint(),
      data.rename_column("n", "m").fingerprint(),
      data.remove_columns({"n"}).fingerprint(),
      data.remove_columns({"text"}).fingerprint()};
  EXPECT_EQ(different.size(), 8U);
}

TEST(Dataset, ConvertsIntegersInAColumnOfRealNumbers) {
  const auto data = Dataset::from_rows({{{"x", 1}}, {{"x", 0.5}}, {{"x", {}}}});

  EXPECT_EQ(data.columns(), (std::vector<Column>{{"x", ColumnType::real}}));
  EXPECT_EQ(data.get(0).at("x"), Value(1.0));
  EXPECT_EQ(data.get(2).at("x"), Value());
}

struct BadCall {
  const char* name;
  std::function<void(const Dataset&)> call;
  const char* message;
};

class WrongCall : public testing::TestWithParam<BadCall> {};

TEST_P(WrongCall, IsReportedWithItsValues) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { GetParam().call(numbers(4)); }),
      GetParam().message);
}

void ignore(const auto&) {
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    WrongCall,
    testing::Values(
        BadCall{
            "GetPastTheEnd",
            [](const Dataset& d) { d.get(4); },
            "row 4 is out of range for a dataset of size 4"},
        BadCall{
            "GetBelowZero",
            [](const Dataset& d) { d.get(-1); },
            "row -1 is out of range for a dataset of size 4"},
        BadCall{
            "SelectPastTheEnd",
            [](const Dataset& d) { ignore(d.select({0, 4})); },
            "`select`: index 4 is out of range for a dataset of size 4"},
        BadCall{
            "RemoveUnknown",
            [](const Dataset& d) { ignore(d.remove_columns({"txt"})); },
            "the dataset has no column `txt`; its columns are n, text"},
        BadCall{
            "RenameToAnExistingColumn",
            [](const Dataset& d) { ignore(d.rename_column("n", "text")); },
            "`rename_column`: a column `text` already exists"},
        BadCall{
            "RenameToNothing",
            [](const Dataset& d) { ignore(d.rename_column("n", "")); },
            "`rename_column`: the new name is empty"},
        BadCall{
            "SplitShare",
            [](const Dataset& d) {
              ignore(d.train_test_split({.test_size = 2}));
            },
            "`test_size` is 2, but must be between 0 and 1"},
        BadCall{
            "SplitAll",
            [](const Dataset& d) {
              ignore(d.train_test_split({.test_rows = 4}));
            },
            "the training or the test part would be empty (rows: 4, test rows: "
            "4)"},
        BadCall{
            "SplitTwice",
            [](const Dataset& d) {
              ignore(d.train_test_split({.test_size = 0.5, .test_rows = 1}));
            },
            "`test_size` and `test_rows` are both set"},
        BadCall{
            "NoThreads",
            [](const Dataset& d) {
              ignore(d.filter([](const Row&) { return true; }, 0));
            },
            "`num_threads` is 0"},
        BadCall{
            "UnknownColumnOfARow",
            [](const Dataset& d) { d.get(0).at("Text"); },
            "the row has no column `Text`; its columns are n, text"},
        BadCall{
            "OtherTypeOfARow",
            [](const Dataset& d) { d.get(0).integer("text"); },
            "column `text` holds a string, not a 64-bit integer"},
        BadCall{
            "NoRows",
            [](const Dataset&) { ignore(Dataset::from_rows({})); },
            "`from_rows` got no rows, so the columns are unknown"},
        BadCall{
            "OtherColumns",
            [](const Dataset&) {
              ignore(Dataset::from_rows({{{"a", 1}}, {{"b", 1}}}));
            },
            "row 1 has different columns from row 0"},
        BadCall{
            "OtherTypes",
            [](const Dataset&) {
              ignore(Dataset::from_rows({{{"a", 1}}, {{"a", "x"}}}));
            },
            "row 1: column `a` is a string, but in earlier rows it is a 64-bit "
            "integer"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace transformers
