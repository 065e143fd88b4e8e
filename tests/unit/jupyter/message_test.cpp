// SPDX-License-Identifier: Apache-2.0
#include "jupyter/message.h"

#include <utility>

#include <gtest/gtest.h>

#include "jupyter/completion.h"
#include "jupyter/replies.h"

namespace accelerate::jupyter {
namespace {

Message example() {
  Message message;
  message.identities = {"client"};
  message.header = make_header("execute_request", "s");
  message.content = Json::object({{"code", "1"}});
  return message;
}

TEST(JupyterMessage, RoundTrips) {
  const auto copy = decode(encode(example(), "key"), "key");

  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->type(), "execute_request");
  EXPECT_EQ(copy->identities, std::vector<std::string>{"client"});
  EXPECT_EQ(copy->content.at("code").as_string(), "1");
}

// The expected signature is HMAC-SHA256 with the key `key`, computed with
// Python's hmac module.
TEST(JupyterMessage, IsSignedLikeJupyter) {
  Message message;
  message.header = Json::object({{"msg_type", "x"}});

  EXPECT_EQ(
      encode(message, "key")[1],
      "2282ffffd6e72182b2147b922df4101295f0e2d918c7acf0eeda19c870533a00");
}

TEST(JupyterMessage, IsRejectedWhenMalformedOrForged) {
  const Frames good = encode(example(), "key");
  Frames changed = good;
  changed.back() = R"({"code":"2"})";
  Frames cut = good;
  cut.pop_back();
  Frames no_json = encode(example(), "");
  no_json.back() = "{";

  EXPECT_FALSE(decode(good, "other"));
  EXPECT_FALSE(decode(changed, "key"));
  EXPECT_FALSE(decode(cut, "key"));
  EXPECT_FALSE(decode(no_json, ""));
  EXPECT_FALSE(decode({}, "key"));
  EXPECT_FALSE(decode({"<IDS|MSG>"}, "key"));
}

TEST(CellError, HasTheCompilerMessagesAndAHint) {
  const CellError error = error_of(
      {"compile",
       "In file included from <<< inputs >>>:1:\n"
       "In[4]:2:5: error: redefinition of 'f'\n    2 | int f\n"});

  EXPECT_EQ(error.name, "CompileError");
  EXPECT_EQ(error.value, "In[4]:2:5: error: redefinition of 'f'");
  ASSERT_EQ(error.traceback.size(), 3U);
  EXPECT_EQ(error.traceback[0], error.value);
  EXPECT_TRUE(
      error.traceback[2].starts_with("hint: a name can be defined only once"));
}

TEST(CellError, NamesTheException) {
  const CellError error = error_of({"exception", "std::runtime_error\nboo"});

  EXPECT_EQ(error.name, "std::runtime_error");
  EXPECT_EQ(error.value, "boo");
  EXPECT_EQ(
      error.traceback, std::vector<std::string>{"std::runtime_error: boo"});
  EXPECT_EQ(
      error_of({"exception", "int\n"}).traceback,
      std::vector<std::string>{"int"});
}

TEST(ValidUtf8, ReplacesInvalidBytesAndKeepsAnIncompleteCharacter) {
  std::string rest;

  EXPECT_EQ(valid_utf8("a\xFFz", rest), "a\xEF\xBF\xBDz");
  EXPECT_EQ(rest, "");
  EXPECT_EQ(valid_utf8("a\xC3", rest), "a");
  EXPECT_EQ(rest, "\xC3");
  EXPECT_EQ(valid_utf8(rest + "\xA9", rest), "é");
  EXPECT_EQ(rest, "");
}

TEST(Completions, AreNamesWithThePrefix) {
  EXPECT_EQ(
      parse_completions(
          "COMPLETION: push_back : [#void#]push_back(<#x#>)\n"
          "COMPLETION: push_back : [#void#]push_back(<#y#>)\n"
          "COMPLETION: Pattern : for(<#a#>)\nother\n"
          "COMPLETION: pull\nCOMPLETION: __p\n",
          "p"),
      (std::vector<std::string>{"pull", "push_back"}));
}

}  // namespace
}  // namespace accelerate::jupyter
