// SPDX-License-Identifier: Apache-2.0
// Downloads from a server that rejects requests, sends wrong data, disconnects
// or hangs.
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include "base/hmac.h"
#include "base/text.h"
#include "process/hub_fixture.h"

namespace transformers::hub {
namespace {

using accelerate::FormatError;

TEST_F(Hub, ResumesAfterEachDisconnect) {
  HubServer& server = serve(
      Json::object({{"disconnect_after", Json::array({30'000, 0, 50'000})}}));

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

TEST_F(Hub, StartsOverWhenTheServerDoesNotSupportRanges) {
  serve(Json::object(
      {{"disconnect_after", Json::array({30'000})}, {"no_ranges", true}}));

  expect_model(resolve());
}

TEST_F(Hub, StartsOverWhenTheIncompleteFileIsTooLong) {
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

TEST_F(Hub, RetriesWhenTheServerIsBusy) {
  HubServer& server = serve(Json::object(
      {{"statuses",
        Json::object(
            {{"list", Json::array({429, 500})},
             {"head", Json::array({503})},
             {"get", Json::array({502, 504, 500})}})}}));

  expect_model(resolve());

  EXPECT_EQ(server.requests("/api/").size(), 3U);
}

TEST_F(Hub, WaitsAsLongAsTheServerRequests) {
  serve(Json::object(
      {{"statuses", Json::object({{"list", Json::array({429})}})},
       {"retry_after", 1}}));
  const auto begin = std::chrono::steady_clock::now();

  resolve();

  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(Hub, GivesUpAfterSomeAttempts) {
  HubServer& server = serve(Json::object(
      {{"statuses",
        Json::object({{"list", Json(std::vector<int>(20, 500))}})}}));

  EXPECT_EQ(
      message_of<IoError>([&] { resolve(); }),
      str_cat(
          server.endpoint(),
          "/api/models/org/model/revision/main returned 500 (5 attempts)"));
  EXPECT_EQ(server.requests().size(), 5U);
}

TEST_F(Hub, NamesTheServerThatCannotBeReached) {
  serve();
  hub_options.endpoint = "http://127.0.0.1:1";
  hub_options.attempts = 2;

  EXPECT_THAT(
      message_of<IoError>([&] { resolve(); }),
      HasSubstr(
          "cannot reach http://127.0.0.1:1/api/models/org/model/revision/main: "
          "Failed to connect to 127.0.0.1 port 1"));
}

TEST_F(Hub, UsesTheCacheWhenTheServerCannotBeReached) {
  serve();
  const fs::path path = resolve();
  hub_options.endpoint = "http://127.0.0.1:1";
  hub_options.attempts = 1;

  EXPECT_EQ(resolve(), path);
}

/// Replaces `@` by the server's address.
std::string with_address(const std::string& text, const HubServer& server) {
  return accelerate::replace_all(text, "@", server.endpoint());
}

struct Refusal {
  const char* name;
  Json scenario;
  const char* message;  // `@` is the server's address.
  const char* hint;
};

class HubRefusal : public Hub, public testing::WithParamInterface<Refusal> {};

TEST_P(HubRefusal, IsReportedWithAHint) {
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

  EXPECT_EQ(message, with_address(GetParam().message, server));
  EXPECT_THAT(hint, HasSubstr(GetParam().hint));
  EXPECT_FALSE(fs::exists(model_folder() / "refs"));
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    HubRefusal,
    testing::Values(
        Refusal{
            "Private",
            Json::object({{"token", "hf_x"}}),
            "`org/model` does not exist or cannot be read without a token: "
            "@/api/models/org/model/revision/main returned 401: Invalid "
            "username or password.",
            "for a private model, set HF_TOKEN"},
        Refusal{
            "Gated",
            Json::object({{"gated", true}}),
            "`org/model` is gated: @/api/models/org/model/revision/main "
            "returned 401: Access is restricted",
            "/org/model, then set HF_TOKEN to a token for the account that has "
            "access"},
        Refusal{
            "NoModel",
            Json::object({{"missing", "repo"}}),
            "there is no model `org/model`: "
            "@/api/models/org/model/revision/main returned 404",
            "check the name"},
        Refusal{
            "NoRevision",
            Json::object({{"missing", "revision"}}),
            "`org/model` has no revision `main`: "
            "@/api/models/org/model/revision/main returned 404",
            "check the name of the branch"},
        Refusal{
            "Teapot",
            Json::object(
                {{"statuses", Json::object({{"list", Json::array({418})}})}}),
            "@/api/models/org/model/revision/main returned 418",
            "check HF_ENDPOINT"}),
    [](const auto& test) { return test.param.name; });

struct BadResponse {
  const char* name;
  Json scenario;
  const char* message;
};

class HubBadResponse : public Hub,
                       public testing::WithParamInterface<BadResponse> {};

TEST_P(HubBadResponse, IsRejected) {
  HubServer& server = serve(GetParam().scenario);

  const std::string message = message_of<FormatError>([&] { resolve(); });

  EXPECT_THAT(message, HasSubstr(with_address(GetParam().message, server)));
  EXPECT_FALSE(fs::exists(
      model_folder() / "snapshots" / HubServer::kCommit / "model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    HubBadResponse,
    testing::Values(
        BadResponse{
            "Digest",
            Json::object(
                {{"corrupt", "model.safetensors"}, {"redirect", true}}),
            "sent 100000 bytes with SHA-256 "},
        BadResponse{
            "GitDigest",
            Json::object({{"corrupt", "config.json"}}),
            "sent 22 bytes with git SHA-1 "},
        BadResponse{
            "NegativeSize",
            Json::object({{"announced_size", -5}, {"redirect", true}}),
            "/model.safetensors announced a size of -5 bytes"},
        BadResponse{
            "NotTheHub",
            Json::object({{"listing", "{}"}}),
            "the response from @/api/models/org/model/revision/main is not in "
            "the Hub's format"},
        BadResponse{
            "NotJson",
            Json::object({{"listing", "<html>"}}),
            "@/api/models/org/model/revision/main:1:1: "},
        BadResponse{
            "FileOutsideTheFolder",
            Json::object(
                {{"listing",
                  "{\"sha\": \"0123456789abcdef0123456789abcdef01234567\", "
                  "\"siblings\": [{\"rfilename\": \"../../x\"}]}"}}),
            "lists a file outside the model's folder: `../../x`"},
        BadResponse{
            "NoCommit",
            Json::object({{"headers", Json::object({{"x-repo-commit", {}}})}}),
            "returned no commit"},
        BadResponse{
            "OtherCommit",
            Json::object(
                {{"headers", Json::object({{"x-repo-commit", "abc"}})}}),
            "returned a different commit: abc"},
        BadResponse{
            "HeaderWithControlCharacters",
            Json::object(
                {{"headers",
                  Json::object({{"x-repo-commit", "abc\x1b[2J\u009b"}})}}),
            "returned a different commit: abc\\x1b[2J\\x9b"},
        BadResponse{
            "NoETag",
            Json::object({{"headers", Json::object({{"etag", {}}})}}),
            "returned no ETag"},
        BadResponse{
            "ETagIsAPath",
            Json::object(
                {{"headers", Json::object({{"etag", "\"../../x\""}})}}),
            "returned an ETag that cannot be used as a file name: \"../../x\""},
        BadResponse{
            "LessThanAnnounced",
            Json::object({{"announced_size", 200'000}, {"redirect", true}}),
            "/model.safetensors stopped sending after 100000 bytes, but 200000 "
            "were announced"},
        BadResponse{
            "MoreThanAnnounced",
            Json::object({{"announced_size", 10}}),
            "sent more than the announced 10 bytes"}),
    [](const auto& test) { return test.param.name; });

// The file is a million terabytes long, so no request for its content must be
// sent.
TEST_F(Hub, ChecksTheDiskBeforeADownload) {
  HubServer& server = serve(Json::object(
      {{"announced_size", std::int64_t{1} << 60}, {"redirect", true}}));

  const std::string blobs = (model_folder() / "blobs").string();
  EXPECT_THAT(
      message_of<IoError>([&] { resolve(); }),
      testing::AllOf(
          testing::StartsWith(
              "model.safetensors of `org/model` has 1152921504606846976 bytes, "
              "but only "),
          testing::EndsWith("bytes are free in " + blobs)));
  for (const Json& request : server.requests("model.safetensors")) {
    EXPECT_EQ(request.at("method").as_string(), "HEAD");
  }
}

// In a cache that several users share, another user can put anything where the
// partial file will be.
class HubPlanted : public Hub,
                   public testing::WithParamInterface<const char*> {};

TEST_P(HubPlanted, IsReplacedAndNotWrittenTo) {
  const std::string kind = GetParam();
  if (kind == "other_user" && ::geteuid() != 0) {
    GTEST_SKIP() << "only root can create a file of another user";
  }
  serve();
  const auto content = accelerate::test::large_file("model.safetensors", kSize);
  const fs::path blob =
      model_folder() / "blobs" / accelerate::sha256_hex(content);
  const fs::path planted = blob.string() + ".incomplete";
  const fs::path victim = folder.write("victim", "precious");
  fs::create_directories(blob.parent_path());
  if (kind == "link") {
    fs::create_symlink(victim, planted);
  } else if (kind == "dangling_link") {
    fs::create_symlink(folder.path() / "created", planted);
  } else if (kind == "hard_link") {
    fs::create_hard_link(victim, planted);
  } else if (kind == "pipe") {
    ASSERT_EQ(::mkfifo(planted.c_str(), 0666), 0);
  } else {
    std::ofstream(planted) << "not the model";
    ASSERT_EQ(::chown(planted.c_str(), 65534, 65534), 0);
  }

  expect_model(resolve());

  EXPECT_EQ(folder.read("victim"), "precious");
  EXPECT_FALSE(fs::exists(folder.path() / "created"));
  EXPECT_FALSE(fs::is_symlink(blob));
  struct stat status{};
  ASSERT_EQ(::stat(blob.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, ::geteuid());
  EXPECT_EQ(status.st_nlink, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    HubPlanted,
    testing::Values("link", "dangling_link", "hard_link", "pipe", "other_user"),
    [](const auto& test) { return std::string(test.param); });

TEST_F(Hub, GivesUpOnAServerThatHangs) {
  serve(Json::object({{"hang_after", 1000}}));
  hub_options.stall_timeout = std::chrono::seconds(1);
  hub_options.attempts = 1;
  hub_options.max_attempts = 1;

  EXPECT_THAT(
      message_of<IoError>([&] { resolve(); }),
      HasSubstr("downloaded 1000 of 100000 bytes of model.safetensors in"));
}

TEST_F(Hub, GivesUpOnADownloadOfUnknownSize) {
  serve(Json::object(
      {{"hang_after", 1000}, {"redirect", true}, {"no_size", true}}));
  hub_options.stall_timeout = std::chrono::seconds(1);
  hub_options.attempts = 1;
  hub_options.max_attempts = 1;

  EXPECT_THAT(
      message_of<IoError>([&] { resolve(); }),
      HasSubstr("downloaded 1000 bytes of model.safetensors in"));
}

TEST_F(Hub, RejectsPickledWeights) {
  serve(Json::object(
      {{"files",
        Json::object(
            {{"config.json", "{}"}, {"pytorch_model.bin", "pickle"}})}}));

  EXPECT_EQ(
      message_of<accelerate::UnsupportedError>([&] { resolve(); }),
      "`org/model` at 01234567 has weights only in `pytorch_model.bin`, a "
      "pickle file, which can run code when it is loaded");
}

}  // namespace
}  // namespace transformers::hub
