// SPDX-License-Identifier: Apache-2.0
// Compares rotary embeddings with Hugging Face Transformers.
// tests/parity/make_rope.py writes the expected values.
#include "transformers/rope.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <torch/types.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "support/message_of.h"
#include "transformers/configuration.h"

namespace transformers {
namespace {

using accelerate::Json;
using accelerate::message_of;

const std::vector<Json>& rope_cases() {
  static const std::vector<Json> cases = [] {
    const std::string path = ACCELERATE_GOLDEN "/rope.json";
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return Json::parse(text, {.source = path}).as_array();
  }();
  return cases;
}

at::Tensor tensor_of(const Json& rows) {
  std::vector<at::Tensor> tensors;
  for (const Json& row : rows.as_array()) {
    std::vector<float> values;
    for (const Json& value : row.as_array()) {
      values.push_back(static_cast<float>(value.as_double()));
    }
    tensors.push_back(at::tensor(values));
  }
  return at::stack(tensors);
}

class GoldenRope : public testing::TestWithParam<std::size_t> {};

TEST_P(GoldenRope, HasTheSameAngles) {
  const Json& golden = rope_cases()[GetParam()];
  std::vector<std::int64_t> positions;
  for (const Json& position : golden.at("positions").as_array()) {
    positions.push_back(position.as_integer());
  }
  // Tests the config as read from the file, and after writing and reading it.
  Config config = Config::from_json(golden.at("config"));
  for (int pass = 0; pass < 2; ++pass) {
    const auto& llama = config.as<LlamaConfig>();
    RotaryEmbedding rotary(
        llama.rope_parameters, 16, llama.max_position_embeddings);

    const auto [cos, sin] =
        rotary(at::tensor(positions).unsqueeze(0), at::kFloat);

    const auto half = [](const at::Tensor& x_B1TD) {
      return x_B1TD[0][0].slice(1, 0, 8);
    };
    EXPECT_TRUE(at::allclose(half(cos), tensor_of(golden.at("cos")), 0, 2e-6))
        << half(cos) << tensor_of(golden.at("cos"));
    EXPECT_TRUE(at::allclose(half(sin), tensor_of(golden.at("sin")), 0, 2e-6))
        << half(sin) << tensor_of(golden.at("sin"));
    config = Config::from_json(config.to_json());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    GoldenRope,
    testing::Range(std::size_t{0}, rope_cases().size()),
    [](const auto& test) {
      return rope_cases()[test.param].at("name").as_string();
    });

TEST(RotaryEmbedding, RejectsAnEmptyOriginalContext) {
  EXPECT_EQ(
      message_of<accelerate::ArgumentError>([] {
        RotaryEmbedding(
            {.rope_type = "yarn", .original_max_position_embeddings = 0},
            16,
            32);
      }),
      "`original_max_position_embeddings` is 0, but must be 1 or more");
}

struct BadRope {
  const char* name;
  const char* fields;
  const char* message;
};

class UnsupportedRope : public testing::TestWithParam<BadRope> {};

TEST_P(UnsupportedRope, IsRefusedWithItsValue) {
  const Json config = Json::parse(
      std::string(R"({"model_type": "llama", )") + GetParam().fields + "}");

  EXPECT_EQ(
      message_of<accelerate::Error>(
          [&] { static_cast<void>(Config::from_json(config)); }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    UnsupportedRope,
    testing::Values(
        BadRope{
            "Partial",
            R"("partial_rotary_factor": 0.5,
               "rope_scaling": {"type": "linear", "factor": 2})",
            "config: `partial_rotary_factor` is 0.5; for `rope_type` "
            "`linear`, only 1 is supported"},
        BadRope{
            "PartialInside",
            R"("rope_parameters": {"rope_type": "linear", "factor": 2,
               "partial_rotary_factor": 0.25})",
            "config: `partial_rotary_factor` is 0.25; for `rope_type` "
            "`linear`, only 1 is supported"},
        BadRope{
            "NullOutside",
            R"("original_max_position_embeddings": null,
               "rope_scaling": {"type": "yarn", "factor": 2})",
            "config: `original_max_position_embeddings` is null, not an "
            "integer"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace transformers
