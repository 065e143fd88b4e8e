// SPDX-License-Identifier: Apache-2.0
// Compares `load_dataset` with Hugging Face Datasets.
// tests/parity/make_datasets.py writes the expected columns and rows.
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "transformers/dataset.h"

namespace transformers {
namespace {

using accelerate::Json;

const std::vector<Json>& golden_cases() {
  static const std::vector<Json> cases = [] {
    const std::string path = ACCELERATE_GOLDEN "/datasets.json";
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return Json::parse(text, {.source = path, .allow_nan = true}).as_array();
  }();
  return cases;
}

std::string content_of(const Json& pieces) {
  std::string text;
  for (const Json& piece : pieces.as_array()) {
    for (auto left = piece.at(1).as_integer(); left > 0; --left) {
      text += piece.at(std::size_t{0}).as_string();
    }
  }
  return text;
}

LoadDatasetOptions options_of(const Json& json) {
  LoadDatasetOptions options;
  for (const auto& [key, value] : json.as_object()) {
    if (key == "column_names") {
      for (const Json& name : value.as_array()) {
        options.column_names.push_back(name.as_string());
      }
    } else if (key == "delimiter") {
      options.delimiter = value.as_string().at(0);
    } else if (key == "quoting") {
      options.quoting = value.as_bool();
    } else if (key == "keep_default_na") {
      options.keep_default_na = value.as_bool();
    } else {
      ADD_FAILURE() << "unknown option " << key;
    }
  }
  return options;
}

Json as_json(const Value& value) {
  return std::visit(
      [](const auto& content) {
        if constexpr (std::is_same_v<
                          std::decay_t<decltype(content)>,
                          std::monostate>) {
          return Json();
        } else {
          return Json(content);
        }
      },
      value);
}

/// Returns the JSON text; unlike a comparison of values, this compares NaN and
/// the types of numbers.
std::string text_of(const Json& value) {
  return value.dump({.allow_nan = true});
}

class PythonDatasets : public testing::TestWithParam<std::size_t> {
 protected:
  Dataset load() const {
    std::vector<std::filesystem::path> paths;
    for (const Json& pieces : golden.at("files").as_array()) {
      paths.push_back(
          folder.write(std::to_string(paths.size()), content_of(pieces)));
    }
    const Json* options = golden.find("options");
    return load_dataset(
        golden.at("format").as_string(),
        paths,
        options != nullptr ? options_of(*options) : LoadDatasetOptions{});
  }

  const Json& golden = golden_cases()[GetParam()];
  const accelerate::TemporaryDirectory folder;
};

TEST_P(PythonDatasets, ReadTheSame) {
  if (const Json* refused = golden.find("refused")) {
    const auto message = accelerate::message_of<accelerate::FormatError>(
        [&] { static_cast<void>(load()); });
    EXPECT_NE(message.find(refused->as_string()), std::string::npos) << message;
    return;
  }

  const auto data = load();

  std::vector<Json> columns;
  for (const Column& column : data.columns()) {
    columns.push_back(Json::array({column.name, name_of(column.type)}));
  }
  EXPECT_EQ(text_of(columns), text_of(golden.at("columns")));
  ASSERT_EQ(data.size(), golden.at("size").as_integer());
  std::int64_t index = golden.at("rows_from").as_integer();
  for (const Json& expected : golden.at("rows").as_array()) {
    std::vector<Json> row;
    for (const auto& [name, value] : data.get(index)) {
      row.push_back(as_json(value));
    }
    EXPECT_EQ(text_of(row), text_of(expected)) << "row " << index;
    ++index;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    PythonDatasets,
    testing::Range(std::size_t{0}, golden_cases().size()),
    [](const auto& test) {
      const Json& golden = golden_cases()[test.param];
      return golden.at("format").as_string() + golden.at("name").as_string();
    });

}  // namespace
}  // namespace transformers
