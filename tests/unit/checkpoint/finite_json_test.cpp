// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/finite_json.h"

#include <cmath>

#include <gtest/gtest.h>

namespace accelerate {
namespace {

TEST(FiniteJson, KeepsNumbersThatJsonCannotWrite) {
  const Json state = Json::object(
      {{"best", -INFINITY},
       {"worst", Json::array({Json(INFINITY), Json(1.5), Json("Infinity")})},
       {"none", Json()}});

  const std::string text = without_infinities(state).dump();
  EXPECT_EQ(
      text,
      R"({"best":{"not_finite":"-Infinity"},)"
      R"("worst":[{"not_finite":"Infinity"},1.5,"Infinity"],"none":null})");
  const Json again = with_infinities(Json::parse(text));
  EXPECT_EQ(again, state);

  const Json nan = with_infinities(
      Json::parse(without_infinities(Json(std::nan(""))).dump()));
  EXPECT_TRUE(std::isnan(nan.as_double()));
}

TEST(FiniteJson, LeavesSimilarObjectsUnchanged) {
  const Json state = Json::parse(
      R"([{"not_finite": "no"}, {"not_finite": "NaN", "b": 1}, {"not_finite": 1}])");
  EXPECT_EQ(with_infinities(without_infinities(state)), state);
}

}  // namespace
}  // namespace accelerate
