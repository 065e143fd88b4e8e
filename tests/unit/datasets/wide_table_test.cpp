// SPDX-License-Identifier: Apache-2.0
// Tables with very many columns: the time of every operation is proportional to
// the number of columns.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "datasets/row_builder.h"
#include "support/temporary_directory.h"
#include "transformers/dataset.h"

namespace transformers {
namespace {

// With this many columns, an operation with quadratic running time takes about
// a minute. All operations below together take about a second.
constexpr int kColumns = 200'000;
constexpr auto kLimit = std::chrono::seconds(20);

class WideTable : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_LT(std::chrono::steady_clock::now() - start_, kLimit);
  }

  static std::vector<std::string> names() {
    std::vector<std::string> result;
    for (int i = 0; i < kColumns; ++i) {
      result.push_back("c" + std::to_string(i));
    }
    return result;
  }

  static Row wide_row() {
    std::vector<Row::Cell> cells;
    for (const std::string& name : names()) {
      cells.emplace_back(name, 1);
    }
    return datasets::RowBuilder::row(std::move(cells));
  }

  const accelerate::TemporaryDirectory folder_;

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

TEST_F(WideTable, IsReadFromCsv) {
  std::string text;
  for (const std::string& name : names()) {
    text += name + ",";
  }
  text += "last\n1\n2,3\n";

  const auto data = load_dataset("csv", folder_.write("f", text));

  EXPECT_EQ(data.columns().size(), kColumns + 1U);
  EXPECT_EQ(data.get(1).size(), kColumns + 1U);
}

TEST_F(WideTable, IsReadFromCsvWithEqualNames) {
  std::string text;
  for (int i = 0; i < kColumns; ++i) {
    text += i % 2 == 0 ? "a," : "a." + std::to_string(i) + ",";
  }

  const auto data = load_dataset("csv", folder_.write("f", text + "\n1\n"));

  EXPECT_EQ(data.columns().size(), kColumns + 1U);
  EXPECT_EQ(data.columns().back().name, "Unnamed: " + std::to_string(kColumns));
}

TEST_F(WideTable, IsReadFromCsvWithOneName) {
  std::string text;
  for (int i = 0; i < kColumns; ++i) {
    text += i == 0 ? "a" : ",a";
  }

  const auto data = load_dataset("csv", folder_.write("f", text + "\n1\n"));

  EXPECT_EQ(data.columns().size(), static_cast<std::size_t>(kColumns));
  EXPECT_EQ(data.columns().back().name, "a." + std::to_string(kColumns - 1));
}

TEST_F(WideTable, IsReadFromJsonWithNewColumnsInEveryRow) {
  std::string text;
  for (const std::string& name : names()) {
    text += "{\"" + name + "\": 1}\n";
  }

  const auto data = load_dataset("json", folder_.write("f", text));

  EXPECT_EQ(data.columns().size(), static_cast<std::size_t>(kColumns));
  EXPECT_EQ(data.size(), kColumns);
}

TEST_F(WideTable, IsReadFromJson) {
  std::string text;
  for (const std::string& name : names()) {
    text += (text.empty() ? "{\"" : ",\"") + name + "\": 1";
  }
  text += "}\n{\"c0\": 2}\n";

  const auto data = load_dataset(
      "json",
      folder_.write("f", text),
      {.column_types = {{"c1", ColumnType::integer}}});

  EXPECT_EQ(data.columns().size(), static_cast<std::size_t>(kColumns));
  EXPECT_EQ(data.get(0).size(), static_cast<std::size_t>(kColumns));
}

TEST_F(WideTable, IsMadeFromRows) {
  const auto data = Dataset::from_rows({wide_row(), wide_row()});

  EXPECT_EQ(data.get(1).size(), static_cast<std::size_t>(kColumns));
}

TEST_F(WideTable, LosesColumns) {
  auto most = names();
  most.pop_back();

  const auto data = Dataset::from_rows({wide_row()}).remove_columns(most);

  EXPECT_EQ(data.get(0), (Row{{"c" + std::to_string(kColumns - 1), 1}}));
}

TEST_F(WideTable, IsMapped) {
  auto most = names();
  most.pop_back();
  const auto data = Dataset::from_rows({wide_row()});

  const auto replaced = data.map(
      [](const Row& row) { return row; }, {.cache_dir = folder_.path()});
  const auto removed = data.map(
      [](const Row&) { return Row(); },
      {.remove_columns = most, .cache_dir = folder_.path()});

  EXPECT_EQ(replaced.get(0).size(), static_cast<std::size_t>(kColumns));
  EXPECT_EQ(removed.get(0).size(), 1U);
}

}  // namespace
}  // namespace transformers
