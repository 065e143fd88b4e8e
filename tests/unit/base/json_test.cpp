// SPDX-License-Identifier: Apache-2.0
#include "accelerate/json.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/utf8.h"

namespace accelerate {
namespace {

std::string message_of_parse(
    std::string_view text, const JsonParseOptions& options = {}) {
  try {
    (void)Json::parse(text, options);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, ReadsEveryKindOfValue) {
  const Json json = Json::parse(
      R"({"a": null, "b": true, "c": -3, "d": 0.5, "e": "x", "f": [1, 2]})");

  EXPECT_TRUE(json.at("a").is_null());
  EXPECT_TRUE(json.at("b").as_bool());
  EXPECT_EQ(json.at("c").as_integer(), -3);
  EXPECT_EQ(json.at("d").as_double(), 0.5);
  EXPECT_EQ(json.at("e").as_string(), "x");
  EXPECT_EQ(json.at("f").at(1).as_integer(), 2);
}

TEST(Json, KeepsTheOrderOfMembers) {
  const std::string text = R"({"z":1,"a":{"y":[],"b":{}},"m":"\u00e9"})";

  EXPECT_EQ(Json::parse(text).dump(), R"({"z":1,"a":{"y":[],"b":{}},"m":"é"})");
  EXPECT_EQ(Json::parse(text).dump({.ensure_ascii = true}), text);
}

TEST(Json, DumpsPretty) {
  const Json json = Json::object({{"a", Json::array({1, 2.0})}, {"b", {}}});

  EXPECT_EQ(
      json.dump({.indent = 2}),
      "{\n  \"a\": [\n    1,\n    2.0\n  ],\n  \"b\": null\n}");
}

TEST(Json, FindsMembersOfLargeObjects) {
  Json json = Json::object();
  for (int i = 0; i < 1000; ++i) {
    json["key" + std::to_string(i)] = i;
  }
  EXPECT_EQ(json.at("key777").as_integer(), 777);
  EXPECT_TRUE(json.as_object().erase("key3"));

  EXPECT_FALSE(json.contains("key3"));
  EXPECT_EQ(json.at("key999").as_integer(), 999);
  EXPECT_EQ(json.size(), 999U);
}

TEST(Json, WholeNumbersThatDoNotFitBecomeDoubles) {
  EXPECT_EQ(Json::parse("9223372036854775807").as_integer(), INT64_MAX);
  EXPECT_EQ(Json::parse("9223372036854775808").as_double(), 0x1p63);
  EXPECT_EQ(Json::parse("1" + std::string(30, '0')).as_double(), 1e30);
}

TEST(Json, ErrorsNameLineAndColumn) {
  EXPECT_EQ(
      message_of_parse("{\n  \"a\": tru\n}", {.source = "c.json"}),
      "c.json:2:11: syntax error while parsing value - invalid literal; last "
      "read: '\"a\": tru<U+000A>'");
  EXPECT_EQ(
      message_of_parse("{\"a\": 1,\n \"a\": 2}"),
      "JSON text:2:5: the key `a` appears twice");
  EXPECT_NE(message_of_parse("{} x").find("JSON text:1:4:"), std::string::npos);
  EXPECT_NE(message_of_parse("").find("JSON text:1:1:"), std::string::npos);
  EXPECT_NE(message_of_parse("\"\xff\"").find("UTF-8"), std::string::npos);
}

// An error must be printable and valid UTF-8, regardless of the text.
TEST(Json, ErrorsQuoteBadTextAsPrintableText) {
  for (const char* text :
       {"{\"a\": \"\xff\"}", "[1, \xc3(", "{\"\\u001b\":1,\"\\u001b\":2}"}) {
    const std::string message = message_of_parse(text);
    EXPECT_EQ(find_invalid_utf8(message), std::string::npos) << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
  }
}

TEST(Json, RefusesDeepNestingAndLargeInput) {
  const std::string deep(100000, '[');

  EXPECT_EQ(
      message_of_parse(deep, {.max_depth = 3}),
      "JSON text:1:5: nested more than 3 levels deep");
  EXPECT_EQ(
      message_of_parse("[1, 2]", {.max_bytes = 4}),
      "JSON text is 6 bytes, more than the 4 allowed");
  EXPECT_EQ(
      Json::parse(std::string(256, '[') + std::string(256, ']')).size(), 1U);
}

TEST(Json, AccessOfTheWrongTypeNamesBothTypes) {
  try {
    (void)Json("text").as_integer();
    FAIL() << "no error";
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "expected an integer, found a string");
  }
}

TEST(Json, ReadsNanAsPythonDoesIfAllowed) {
  const auto parse = [](std::string_view text) {
    return Json::parse(text, {.source = "t", .allow_nan = true});
  };
  const Json json = parse(
      R"([NaN, 0.0, {"NaN": Infinity}, -Infinity ,"-Infinity", "\"NaN", 2, "\"", NaN])");

  EXPECT_EQ(
      json.dump({.allow_nan = true}),
      R"([NaN,0.0,{"NaN":Infinity},-Infinity,"-Infinity","\"NaN",2,"\"",NaN])");
  EXPECT_EQ(parse("NaN").dump({.allow_nan = true}), "NaN");
  for (const char* text :
       {"[1NaN]", "[NaN1]", "[-NaN]", "[nan]", "[1-Infinity]", "[NaN"}) {
    EXPECT_THROW(parse(text), FormatError) << text;
  }
  EXPECT_THROW(Json::parse("[NaN]"), FormatError);
}

TEST(Json, RejectsValuesThatJsonCannotRepresent) {
  EXPECT_THROW((void)Json(std::nan("")).dump(), ArgumentError);
  EXPECT_THROW((void)Json("\xff").dump(), ArgumentError);
  EXPECT_EQ(Json(-INFINITY).dump({.allow_nan = true}), "-Infinity");
}

TEST(Json, DoublesSurviveText) {
  for (const double number : {0.1, 1e300, 5e-324, -0.0, 1.0, 123456789.0}) {
    EXPECT_EQ(Json::parse(Json(number).dump()).as_double(), number);
    EXPECT_FALSE(Json::parse(Json(number).dump()).is_integer());
  }
}

TEST(Json, EveryValueSurvivesCbor) {
  const Json json = Json::object(
      {{"n", nullptr},
       {"t", true},
       {"small", 7},
       {"byte", 200},
       {"short", 60000},
       {"word", std::int64_t{1} << 31},
       {"max", INT64_MAX},
       {"min", INT64_MIN},
       {"minus", -1},
       {"real", 0.1},
       {"inf", INFINITY},
       {"-inf", -INFINITY},
       {"bytes", std::string("\0\xff\x80", 3)},
       {"long", std::string(70000, 'x')},
       {"list", Json::array({1, "two", Json::object({{"three", 3}})})}});

  EXPECT_EQ(Json::from_cbor(json.to_cbor()), json);
  EXPECT_TRUE(
      std::isnan(Json::from_cbor(Json(std::nan("")).to_cbor()).as_double()));
}

TEST(Json, CborMatchesTheStandardsExamples) {
  using Bytes = std::vector<std::uint8_t>;

  EXPECT_EQ(Json(1000000).to_cbor(), (Bytes{0x1a, 0x00, 0x0f, 0x42, 0x40}));
  EXPECT_EQ(Json(-1000).to_cbor(), (Bytes{0x39, 0x03, 0xe7}));
  EXPECT_EQ(
      Json(1.1).to_cbor(),
      (Bytes{0xfb, 0x3f, 0xf1, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a}));
  EXPECT_EQ(Json::array({1, "a"}).to_cbor(), (Bytes{0x82, 0x01, 0x61, 0x61}));
}

TEST(Json, RefusesBrokenCbor) {
  const auto bytes = Json::array({1, "two", 3.5}).to_cbor();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(
        (void)Json::from_cbor(std::span(bytes).first(length)), FormatError)
        << length;
  }
  // An array that claims to have 2^60 elements must not cause a large
  // allocation.
  const std::vector<std::uint8_t> bomb = {0x9b, 0x10, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_THROW((void)Json::from_cbor(bomb), FormatError);
  const std::vector<std::uint8_t> deep(100000, 0x81);
  EXPECT_THROW((void)Json::from_cbor(deep), FormatError);
}

TEST(Json, EqualityIgnoresTheOrderOfMembers) {
  EXPECT_EQ(Json::parse(R"({"a":1,"b":2})"), Json::parse(R"({"b":2,"a":1})"));
  EXPECT_NE(Json::parse(R"({"a":1})"), Json::parse(R"({"a":1.0})"));
}

}  // namespace
}  // namespace accelerate
