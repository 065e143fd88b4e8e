// SPDX-License-Identifier: Apache-2.0
#include "transformers/data_collator.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "support/message_of.h"
#include "transformers/mask_tokens.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::Json;
using accelerate::message_of;
using accelerate::TensorMap;
using Ids = std::vector<std::int64_t>;

const Json& golden_collators() {
  static const Json json = Json::parse(accelerate::read_file(
      ACCELERATE_GOLDEN "/collators.json", std::size_t{1} << 20));
  return json;
}

Value golden_value(const Json& json) {
  if (json.is_integer()) {
    return json.as_integer();
  }
  if (json.is_number()) {
    return json.as_double();
  }
  Ids ids;
  for (const Json& element : json.as_array()) {
    ids.push_back(element.as_integer());
  }
  return ids;
}

std::vector<Row> golden_rows(const Json& list) {
  std::vector<Row> rows;
  for (const Json& json : list.as_array()) {
    Row row;
    for (const auto& [name, value] : json.as_object()) {
      row.set(name, golden_value(value));
    }
    rows.push_back(row);
  }
  return rows;
}

/// Converts a list of numbers or of lists to a tensor.
at::Tensor golden_tensor(const Json& json) {
  std::vector<at::Tensor> rows;
  for (const Json& element : json.as_array()) {
    if (element.is_array()) {
      rows.push_back(at::tensor(std::get<Ids>(golden_value(element))));
    } else {
      const bool is_integer = element.is_integer();
      rows.push_back(at::scalar_tensor(
          is_integer ? at::Scalar(element.as_integer())
                     : at::Scalar(element.as_double()),
          is_integer ? at::kLong : at::kFloat));
    }
  }
  return at::stack(rows);
}

CollatorTokens golden_tokens(const Json& side) {
  CollatorTokens tokens;
  tokens.padding_side = side.as_string() == "left" ? Side::left : Side::right;
  tokens.mask_token_id = golden_collators().at("mask").as_integer();
  tokens.vocab_size = golden_collators().at("vocab_size").as_integer();
  tokens.special_token_ids =
      std::get<Ids>(golden_value(golden_collators().at("special")));
  return tokens;
}

template <typename T>
void read_option(const Json& options, const char* name, T& field) {
  if (const Json* value = options.find(name)) {
    if constexpr (std::is_same_v<T, double>) {
      field = value->as_double();
    } else {
      field = value->as_integer();
    }
  }
}

TensorMap collate(const Json& example) {
  const auto rows = golden_rows(example.at("rows"));
  const auto tokens = golden_tokens(example.at("side"));
  const Json& options = example.at("options");
  PaddingOptions padding;
  read_option(options, "max_length", padding.max_length);
  read_option(options, "pad_to_multiple_of", padding.pad_to_multiple_of);
  const std::string& name = example.at("name").as_string();
  if (name == "padding") {
    return DataCollatorWithPadding(tokens, padding)(rows);
  }
  if (name == "token_classification") {
    return DataCollatorForTokenClassification(tokens)(rows);
  }
  if (name == "causal") {
    return DataCollatorForLanguageModeling(tokens, {.mlm = false})(rows);
  }
  // The Python collator seeds its generator once, and this library's collator
  // seeds it for each batch. Therefore, the test calls `mask_tokens` with a
  // generator that has the seed of the Python generator.
  LanguageModelingOptions masking;
  read_option(options, "mlm_probability", masking.mlm_probability);
  read_option(options, "mask_replace_prob", masking.mask_replace_prob);
  read_option(options, "random_replace_prob", masking.random_replace_prob);
  TensorMap batch = DataCollatorWithPadding(tokens)(rows);
  const at::Tensor ids = batch["input_ids"];
  const auto masked = mask_tokens(
      ids,
      at::isin(ids, at::tensor(tokens.special_token_ids)),
      tokens,
      masking,
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(
          golden_collators().at("seed").as_integer())));
  batch["input_ids"] = masked.input_ids;
  batch["labels"] = masked.labels;
  return batch;
}

class GoldenCollators : public testing::TestWithParam<Json> {};

TEST_P(GoldenCollators, GiveTheSameBatch) {
  const TensorMap batch = collate(GetParam());

  const auto& expected = GetParam().at("batch").as_object();
  EXPECT_EQ(batch.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(batch.contains(name)) << name;
    const at::Tensor tensor = golden_tensor(values);
    EXPECT_EQ(batch.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(batch.at(name), tensor)) << name << "\n"
                                                   << batch.at(name) << "\n"
                                                   << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    GoldenCollators,
    testing::ValuesIn(golden_collators().at("cases").as_array()),
    [](const auto& test) {
      return test.param.at("name").as_string() + "_" +
             std::to_string(test.index);
    });

CollatorTokens bert_tokens() {
  return {
      .mask_token_id = 4,
      .vocab_size = 1000,
      .special_token_ids = {0, 1, 2, 3, 4}};
}

std::vector<Row> long_rows() {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < 40; ++i) {
    Ids ids(500);
    for (std::size_t k = 0; k < ids.size(); ++k) {
      ids[k] = 5 + (static_cast<std::int64_t>(k) * 7 + i) % 900;
    }
    rows.push_back({{"input_ids", ids}});
  }
  return rows;
}

TEST(LanguageModeling, MasksTheSameFractionsAsHuggingFace) {
  const auto rows = long_rows();
  const TensorMap plain = DataCollatorWithPadding(bert_tokens())(rows);

  const TensorMap batch =
      DataCollatorForLanguageModeling(bert_tokens(), {.seed = 1})(rows);

  const auto chosen = batch.at("labels").ne(-100);
  const auto same = batch.at("input_ids").eq(plain.at("input_ids"));
  const auto fraction = [](const at::Tensor& part, const at::Tensor& total) {
    return part.sum().item<double>() / total.sum().item<double>();
  };
  // About 3000 of 20 000 tokens are chosen. The tolerance is five standard
  // deviations.
  EXPECT_NEAR(chosen.to(at::kDouble).mean().item<double>(), 0.15, 0.013);
  EXPECT_NEAR(
      fraction(batch.at("input_ids").eq(4).logical_and(chosen), chosen),
      0.8,
      0.037);
  EXPECT_NEAR(fraction(same.logical_and(chosen), chosen), 0.1, 0.028);
  EXPECT_TRUE(same.logical_or(chosen).all().item<bool>());
  EXPECT_TRUE(at::equal(
      batch.at("labels").masked_select(chosen),
      plain.at("input_ids").masked_select(chosen)));
}

TEST(LanguageModeling, DependsOnlyOnTheSeedAndTheBatch) {
  const auto rows = long_rows();
  const auto labels = [&](std::uint64_t seed, const std::vector<Row>& batch) {
    return DataCollatorForLanguageModeling(bert_tokens(), {.seed = seed})(batch)
        .at("labels");
  };
  const std::vector<Row> reversed(rows.rbegin(), rows.rend());

  EXPECT_TRUE(at::equal(labels(1, rows), labels(1, rows)));
  EXPECT_FALSE(at::equal(labels(1, rows), labels(2, rows)));
  EXPECT_FALSE(at::equal(labels(1, rows), labels(1, reversed).flip(0)));
}

TEST(LanguageModeling, UsesTheDefaultGeneratorWithoutASeed) {
  const DataCollatorForLanguageModeling collator(bert_tokens());
  at::manual_seed(3);
  const auto first = collator(long_rows()).at("labels");
  const auto second = collator(long_rows()).at("labels");
  at::manual_seed(3);

  EXPECT_TRUE(at::equal(collator(long_rows()).at("labels"), first));
  EXPECT_FALSE(at::equal(first, second));
}

TEST(LanguageModeling, NeverChoosesTokensInTheSpecialTokensMask) {
  const TensorMap batch = DataCollatorForLanguageModeling(
      bert_tokens(), {.mlm_probability = 1, .seed = 1})(
      {{{"input_ids", Ids{9, 2, 8}}, {"special_tokens_mask", Ids{1, 0, 0}}}});

  EXPECT_TRUE(
      at::equal(batch.at("labels"), at::tensor(Ids{-100, 2, 8}).view({1, 3})));
  EXPECT_FALSE(batch.contains("special_tokens_mask"));
}

TEST(DataCollator, WorksWithADataLoader) {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < 10; ++i) {
    rows.push_back(
        {{"input_ids", Ids(static_cast<std::size_t>(i + 1), i)}, {"label", i}});
  }
  accelerate::DataLoader loader(
      Dataset::from_rows(rows),
      {.batch_size = 4, .num_workers = 2},
      DataCollatorWithPadding({.pad_token_id = 99}));

  std::vector<std::vector<std::int64_t>> shapes;
  std::int64_t seen = 0;
  for (auto& batch : loader) {
    shapes.push_back(batch["input_ids"].sizes().vec());
    EXPECT_EQ(batch["labels"][0].item<std::int64_t>(), seen);
    seen += batch["labels"].size(0);
  }

  EXPECT_EQ(
      shapes,
      (std::vector<std::vector<std::int64_t>>{{4, 4}, {4, 8}, {2, 10}}));
}

TEST(DataCollator, KeepsOtherColumns) {
  const TensorMap batch = DataCollatorWithPadding({})(
      {{{"input_ids", Ids{1}},
        {"flag", true},
        {"weight", 0.5},
        {"box", std::vector<double>{1, 2}}},
       {{"input_ids", Ids{1, 2}},
        {"flag", false},
        {"weight", 1.5},
        {"box", std::vector<double>{3, 4}}}});

  EXPECT_EQ(batch.at("flag").scalar_type(), at::kBool);
  EXPECT_EQ(batch.at("weight").scalar_type(), at::kFloat);
  EXPECT_EQ(batch.at("box").sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(batch.at("box")[1][0].item<float>(), 3.0F);
}

struct BadRows {
  const char* name;
  std::function<void()> call;
  const char* message;
};

class WrongRows : public testing::TestWithParam<BadRows> {};

TEST_P(WrongRows, AreReported) {
  EXPECT_EQ(message_of<ArgumentError>(GetParam().call), GetParam().message);
}

void pad(const std::vector<Row>& rows, const PaddingOptions& options = {}) {
  static_cast<void>(DataCollatorWithPadding({}, options)(rows));
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    WrongRows,
    testing::Values(
        BadRows{"NoRows", [] { pad({}); }, "the collator got no rows"},
        BadRows{
            "NoIds",
            [] { pad({{{"label", 1}}}); },
            "row 0 of the batch, column `input_ids`: the column does not "
            "exist"},
        BadRows{
            "Text",
            [] { pad({{{"input_ids", Ids{1}}, {"text", "x"}}}); },
            "row 0 of the batch, column `text`: text cannot be converted to a "
            "tensor"},
        BadRows{
            "Missing",
            [] { pad({{{"input_ids", Ids{1}}, {"label", {}}}}); },
            "row 0 of the batch, column `label`: a missing value cannot be "
            "converted to a tensor"},
        BadRows{
            "MissingLater",
            [] {
              pad(
                  {{{"input_ids", Ids{1}}, {"label", 1}},
                   {{"input_ids", Ids{1}}, {"label", {}}}});
            },
            "row 1 of the batch, column `label`: the value is missing"},
        BadRows{
            "TextIds",
            [] { pad({{{"input_ids", "x"}}}); },
            "row 0 of the batch, column `input_ids`: the value is a string, "
            "but must be a list of integers"},
        BadRows{
            "OtherColumns",
            [] {
              pad(
                  {{{"input_ids", Ids{1}}, {"label", 1}},
                   {{"input_ids", Ids{1}}}});
            },
            "row 1 of the batch, column `label`: the column does not exist"},
        BadRows{
            "UnequalMask",
            [] {
              pad({{{"input_ids", Ids{1, 2}}, {"attention_mask", Ids{1}}}});
            },
            "row 0 of the batch, column `attention_mask`: the number of "
            "values is 1, but the number of tokens is 2"},
        BadRows{
            "UnequalLists",
            [] {
              pad(
                  {{{"input_ids", Ids{1}}, {"x", Ids{1}}},
                   {{"input_ids", Ids{1}}, {"x", Ids{1, 2}}}});
            },
            "row 1 of the batch, column `x`: the number of values is 2, but in "
            "row 0 it is 1"},
        BadRows{
            "TooLong",
            [] { pad({{{"input_ids", Ids{1, 2, 3}}}}, {.max_length = 2}); },
            "row 0 of the batch, column `input_ids`: 3 tokens, but "
            "`max_length` is 2"},
        BadRows{
            "NoLength",
            [] { pad({}, {.max_length = 0}); },
            "`max_length` is 0"},
        BadRows{
            "NoMultiple",
            [] { pad({}, {.pad_to_multiple_of = -8}); },
            "`pad_to_multiple_of` is -8"},
        BadRows{
            "NoMask",
            [] { DataCollatorForLanguageModeling({}); },
            "masked language modeling needs `mask_token_id` and `vocab_size`"},
        BadRows{
            "Fraction",
            [] {
              DataCollatorForLanguageModeling(
                  bert_tokens(), {.mlm_probability = 1.5});
            },
            "`mlm_probability` is 1.5, but must be between 0 and 1"},
        BadRows{
            "SumOfFractions",
            [] {
              DataCollatorForLanguageModeling(
                  bert_tokens(),
                  {.mask_replace_prob = 0.8, .random_replace_prob = 0.7});
            },
            "`mask_replace_prob + random_replace_prob` is 1.5, but must be "
            "between 0 and 1"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace transformers
