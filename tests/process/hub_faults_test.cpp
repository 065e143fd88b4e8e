// SPDX-License-Identifier: Apache-2.0
// A server that refuses, lies, cuts and hangs.
#include "base/hmac.h"
#include "base/text.h"
#include "process/hub_fixture.h"

namespace transformers::hub {
namespace {

using accelerate::FormatError;

TEST_F(Hub, GoesOnAfterEachCut) {
  HubServer& server =
      serve(Json::object({{"cut", Json::array({30'000, 0, 50'000})}}));

  expect_model(resolve());

  std::vector<Json> ranges;
  for (const Json& request : server.requests("model.safetensors")) {
    if (request.at("method").as_string() == "GET") {
      ranges.push_back(request.at("range"));
    }
  }
  EXPECT_THAT(
      ranges,
      ElementsAre(
          Json(),
          Json("bytes=30000-"),
          Json("bytes=30000-"),
          Json("bytes=80000-")));
}

TEST_F(Hub, BeginsAnewWhenTheServerHasNoRanges) {
  serve(Json::object({{"cut", Json::array({30'000})}, {"no_ranges", true}}));

  expect_model(resolve());
}

TEST_F(Hub, BeginsAnewAfterAnIncompleteFileThatIsTooLong) {
  serve();
  const auto content = accelerate::test::large_file("model.safetensors", kSize);
  folder.write(
      str_cat(
          "cache/models--org--model/blobs/",
          accelerate::sha256_hex(content),
          ".incomplete"),
      content + "x");

  expect_model(resolve());
}

TEST_F(Hub, TriesAgainWhenTheServerIsBusy) {
  HubServer& server = serve(Json::object(
      {{"answers",
        Json::object(
            {{"list", Json::array({429, 500})},
             {"head", Json::array({503})},
             {"get", Json::array({502, 504, 500})}})}}));

  expect_model(resolve());

  EXPECT_EQ(server.requests("/api/").size(), 3U);
}

TEST_F(Hub, WaitsAsLongAsTheServerWants) {
  serve(Json::object(
      {{"answers", Json::object({{"list", Json::array({429})}})},
       {"retry_after", 1}}));
  const auto begin = std::chrono::steady_clock::now();

  resolve();

  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(Hub, GivesUpAfterSomeAttempts) {
  HubServer& server = serve(Json::object(
      {{"answers",
        Json::object({{"list", Json(std::vector<int>(20, 500))}})}}));

  EXPECT_EQ(
      message_of<IoError>([&] { resolve(); }),
      str_cat(
          server.endpoint(),
          "/api/models/org/model/revision/main answered 500 (5 attempts)"));
  EXPECT_EQ(server.requests().size(), 5U);
}

TEST_F(Hub, NamesTheServerThatCannotBeReached) {
  serve();
  settings.endpoint = "http://127.0.0.1:1";
  settings.attempts = 2;

  EXPECT_THAT(
      message_of<IoError>([&] { resolve(); }),
      HasSubstr(
          "cannot reach http://127.0.0.1:1/api/models/org/model/revision/main: "
          "Failed to connect to 127.0.0.1 port 1"));
}

TEST_F(Hub, UsesTheCacheWhenTheServerIsGone) {
  serve();
  const fs::path path = resolve();
  settings.endpoint = "http://127.0.0.1:1";
  settings.attempts = 1;

  EXPECT_EQ(resolve(), path);
}

/// A text with the server's address for `@`.
std::string addressed(const std::string& text, const HubServer& server) {
  return accelerate::replace_all(text, "@", server.endpoint());
}

struct Refusal {
  const char* name;
  Json scenario;
  const char* message;  // Before and after the address.
  const char* hint;
};

class HubRefuses : public Hub, public testing::WithParamInterface<Refusal> {};

TEST_P(HubRefuses, AndSaysWhatToDo) {
  HubServer& server = serve(GetParam().scenario);
  std::string hint;

  const std::string message = message_of<IoError>([&] {
    try {
      resolve();
    } catch (const IoError& error) {
      hint = error.hint();
      throw;
    }
  });

  EXPECT_EQ(message, addressed(GetParam().message, server));
  EXPECT_THAT(hint, HasSubstr(GetParam().hint));
  EXPECT_FALSE(fs::exists(model_folder() / "refs"));
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    HubRefuses,
    testing::Values(
        Refusal{
            "Private",
            Json::object({{"token", "hf_x"}}),
            "`org/model` does not exist or may not be read without a token: "
            "@/api/models/org/model/revision/main answered 401: Invalid "
            "username or password.",
            "for a private model set HF_TOKEN"},
        Refusal{
            "Gated",
            Json::object({{"gated", true}}),
            "`org/model` is gated: @/api/models/org/model/revision/main "
            "answered 401: Access is restricted",
            "/org/model, then set HF_TOKEN to a token of that account"},
        Refusal{
            "NoModel",
            Json::object({{"missing", "repo"}}),
            "there is no model `org/model`: "
            "@/api/models/org/model/revision/main answered 404",
            "check the name"},
        Refusal{
            "NoRevision",
            Json::object({{"missing", "revision"}}),
            "`org/model` has no revision `main`: "
            "@/api/models/org/model/revision/main answered 404",
            "check the name of the branch"},
        Refusal{
            "Teapot",
            Json::object(
                {{"answers", Json::object({{"list", Json::array({418})}})}}),
            "@/api/models/org/model/revision/main answered 418",
            "check HF_ENDPOINT"}),
    [](const auto& each) { return each.param.name; });

struct Lie {
  const char* name;
  Json scenario;
  const char* message;
};

class HubDoubts : public Hub, public testing::WithParamInterface<Lie> {};

TEST_P(HubDoubts, WhatTheServerSends) {
  HubServer& server = serve(GetParam().scenario);

  const std::string message = message_of<FormatError>([&] { resolve(); });

  EXPECT_THAT(message, HasSubstr(addressed(GetParam().message, server)));
  EXPECT_FALSE(fs::exists(
      model_folder() / "snapshots" / HubServer::kCommit / "model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    HubDoubts,
    testing::Values(
        Lie{"Digest",
            Json::object({{"corrupt", true}, {"elsewhere", true}}),
            "sent 100000 bytes whose SHA-256 is "},
        Lie{"NotTheHub",
            Json::object({{"listing", "{}"}}),
            "@/api/models/org/model/revision/main did not answer as the Hub "
            "does"},
        Lie{"NotJson",
            Json::object({{"listing", "<html>"}}),
            "@/api/models/org/model/revision/main:1:1: "},
        Lie{"LeavesTheFolder",
            Json::object(
                {{"listing",
                  "{\"sha\": \"0123456789abcdef0123456789abcdef01234567\", "
                  "\"siblings\": [{\"rfilename\": \"../../x\"}]}"}}),
            "lists a file outside its folder: `../../x`"},
        Lie{"NoCommit",
            Json::object({{"headers", Json::object({{"x-repo-commit", {}}})}}),
            "does not say which commit it is of"},
        Lie{"OtherCommit",
            Json::object(
                {{"headers", Json::object({{"x-repo-commit", "abc"}})}}),
            "is of another commit: abc"},
        Lie{"NoETag",
            Json::object({{"headers", Json::object({{"etag", {}}})}}),
            "has no ETag"},
        Lie{"ETagIsAPath",
            Json::object(
                {{"headers", Json::object({{"etag", "\"../../x\""}})}}),
            "has an ETag that names no file: \"../../x\""},
        Lie{"LessThanPromised",
            Json::object({{"promise", 200'000}, {"elsewhere", true}}),
            "/model.safetensors ends after 100000 bytes, 200000 were "
            "promised"},
        Lie{"MoreThanPromised",
            Json::object({{"promise", 10}}),
            "sends more than the 10 bytes it promised"}),
    [](const auto& each) { return each.param.name; });

TEST_F(Hub, GivesUpOnAServerThatHangs) {
  serve(Json::object({{"hang_after", 1000}}));
  settings.stall_timeout = std::chrono::seconds(1);
  settings.attempts = 1;
  settings.most_attempts = 1;

  EXPECT_THAT(
      message_of<IoError>([&] { resolve(); }),
      HasSubstr("1000 of 100000 bytes of model.safetensors are there after"));
}

TEST_F(Hub, RefusesPickledWeights) {
  serve(Json::object(
      {{"files",
        Json::object(
            {{"config.json", "{}"}, {"pytorch_model.bin", "pickle"}})}}));

  EXPECT_EQ(
      message_of<accelerate::UnsupportedError>([&] { resolve(); }),
      "`org/model` at 01234567 has its weights only as `pytorch_model.bin`, a "
      "pickle, which could run code when it is read");
}

}  // namespace
}  // namespace transformers::hub
