// SPDX-License-Identifier: Apache-2.0
// Downloads from a server on loopback that answers, refuses, cuts and hangs.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "support/command.h"
#include "support/hub_server.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"
#include "transformers/hub/resolve.h"

namespace transformers::hub {
namespace {

namespace fs = std::filesystem;
using accelerate::FormatError;
using accelerate::IoError;
using accelerate::Json;
using accelerate::message_of;
using accelerate::str_cat;
using accelerate::test::HubServer;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kSize = 100'000;

class Hub : public testing::Test {
 protected:
  HubServer& serve(const Json& scenario = Json::object()) {
    server_ = std::make_unique<HubServer>(folder.path(), scenario);
    settings.endpoint = server_->endpoint();
    return *server_;
  }

  Hub() {
    settings.cache = folder.path() / "cache";
    settings.first_pause = std::chrono::milliseconds(1);
    settings.longest_pause = std::chrono::milliseconds(4);
  }

  fs::path resolve(
      const Wanted& wanted = {}, const std::string& revision = "main") {
    return resolve_model("org/model", revision, wanted, settings);
  }

  fs::path model_folder() const {
    return settings.cache / "models--org--model";
  }

  /// The environment of a process that downloads by itself.
  std::map<std::string, std::string> environment() const {
    return {
        {"HF_HUB_CACHE", settings.cache.string()},
        {"HF_HOME", folder.path().string()},
        {"HF_ENDPOINT", settings.endpoint}};
  }

  static void expect_model(const fs::path& path) {
    const accelerate::TemporaryFolder reader;
    EXPECT_EQ(reader.read(path / "config.json"), "{\"model_type\": \"bert\"}");
    // A difference of 100 000 bytes would not be good to read.
    EXPECT_TRUE(
        reader.read(path / "model.safetensors") ==
        accelerate::test::large_file("model.safetensors", kSize));
  }

  accelerate::TemporaryFolder folder;
  Settings settings;

 private:
  std::unique_ptr<HubServer> server_;
};

std::vector<std::string> names_in(const fs::path& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_directory()) {
      names.push_back(entry.path().lexically_relative(path).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(Hub, LaysFilesOutAsPythonDoes) {
  serve();

  const fs::path path = resolve();

  EXPECT_EQ(path, model_folder() / "snapshots" / HubServer::kCommit);
  expect_model(path);
  EXPECT_EQ(folder.read(model_folder() / "refs/main"), HubServer::kCommit);
  // The same as tests/parity/check_hub.py sees from Python.
  const auto large = accelerate::sha256_hex(
      accelerate::test::large_file("model.safetensors", kSize));
  EXPECT_THAT(
      names_in(model_folder()),
      testing::UnorderedElementsAre(
          "blobs/46332c50668921e90868a1d44a2550bb60ffdb1d",
          "blobs/9e26dfeeb6e641a33dae4961196235bdb965b21b",
          "blobs/" + large,
          "refs/main",
          str_cat("snapshots/", HubServer::kCommit, "/config.json"),
          str_cat("snapshots/", HubServer::kCommit, "/model.safetensors"),
          str_cat("snapshots/", HubServer::kCommit, "/tokenizer.json")));
  EXPECT_EQ(
      fs::read_symlink(path / "model.safetensors"), "../../blobs/" + large);
}

TEST_F(Hub, ReadsACacheThatPythonWrote) {
  const Json golden = Json::parse(accelerate::read_file(
      ACCELERATE_GOLDEN "/hub_cache.json", std::size_t{1} << 20));
  for (const auto& [name, entry] : golden.at("entries").as_object()) {
    const fs::path path = model_folder() / name;
    if (const Json* link = entry.find("link")) {
      fs::create_directories(path.parent_path());
      fs::create_symlink(link->as_string(), path);
    } else if (const Json* text = entry.find("text")) {
      folder.write(path, text->as_string());
    } else {
      folder.write(
          path, accelerate::test::large_file("model.safetensors", 1000));
    }
  }
  settings.offline = true;

  const fs::path path = resolve();

  EXPECT_EQ(path, model_folder() / "snapshots" / HubServer::kCommit);
  EXPECT_EQ(folder.read(path / "config.json"), "{\"model_type\": \"bert\"}");
  EXPECT_EQ(fs::file_size(path / "model.safetensors"), 1000U);
}

TEST_F(Hub, AsksOnlyForTheListWhenAllIsThere) {
  HubServer& server = serve();
  resolve();
  const auto before = server.requests().size();

  resolve();

  EXPECT_EQ(server.requests().size(), before + 1);
}

TEST_F(Hub, AsksForNothingWhenTheCommitIsThere) {
  HubServer& server = serve();
  resolve();
  const auto before = server.requests().size();

  expect_model(resolve({}, HubServer::kCommit));

  EXPECT_EQ(server.requests().size(), before);
}

TEST_F(Hub, TakesWhatIsWantedAlone) {
  HubServer& server = serve();

  resolve({.content = Content::tokenizer});

  EXPECT_THAT(server.requests("model.safetensors"), testing::IsEmpty());
  EXPECT_EQ(server.requests("tokenizer.json").size(), 2U);
}

TEST_F(Hub, TakesFilesByNameAndPattern) {
  HubServer& server = serve();

  resolve({.files = {"README.md", "*.json"}});

  EXPECT_EQ(server.requests("README.md").size(), 2U);
  EXPECT_EQ(server.requests("tokenizer.json").size(), 2U);
  EXPECT_THAT(server.requests("safetensors"), testing::IsEmpty());
  EXPECT_EQ(
      message_of<IoError>([&] { resolve({.files = {"missing.json"}}); }),
      "`org/model` at 01234567 has no file `missing.json`");
}

TEST_F(Hub, TakesTheShardsOfAnIndex) {
  serve(Json::object(
      {{"files",
        Json::object(
            {{"config.json", "{}"},
             {"model.safetensors.index.json",
              "{\"weight_map\": {\"a\": \"model-1.safetensors\", "
              "\"b\": \"model-2.safetensors\", \"c\": "
              "\"model-1.safetensors\"}}"},
             {"model-1.safetensors", Json::object({{"size", 10}})},
             {"model-2.safetensors", Json::object({{"size", 20}})},
             {"unrelated.safetensors", Json::object({{"size", 20}})}})}}));

  const fs::path path = resolve();

  EXPECT_EQ(fs::file_size(path / "model-1.safetensors"), 10U);
  EXPECT_EQ(fs::file_size(path / "model-2.safetensors"), 20U);
  EXPECT_FALSE(fs::exists(path / "unrelated.safetensors"));
}

TEST_F(Hub, FollowsTheNewNameOfAModel) {
  serve();

  expect_model(resolve_model("old/model", "main", {}, settings));
}

TEST_F(Hub, SendsTheTokenToNoOtherHost) {
  HubServer& server =
      serve(Json::object({{"token", "hf_secret"}, {"elsewhere", true}}));
  settings.token = "hf_secret";

  expect_model(resolve());

  int elsewhere = 0;
  for (const Json& request : server.requests()) {
    const bool second = request.at("server").as_integer() == 2;
    elsewhere += second ? 1 : 0;
    EXPECT_EQ(
        request.at("authorization"), second ? Json() : Json("Bearer hf_secret"))
        << request.dump();
  }
  EXPECT_EQ(elsewhere, 1);
}

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

TEST_F(Hub, UsesTheCacheAloneWhenOffline) {
  HubServer& server = serve();
  settings.offline = true;
  EXPECT_EQ(
      message_of<IoError>([&] { resolve(); }),
      str_cat(
          "the network is forbidden, and the cache ",
          settings.cache.string(),
          " has nothing of its revision `main` of `org/model`"));
  settings.offline = false;
  const fs::path path = resolve({.content = Content::tokenizer});
  settings.offline = true;

  EXPECT_EQ(resolve({.content = Content::tokenizer}), path);
  EXPECT_EQ(
      message_of<IoError>([&] { resolve(); }),
      str_cat(
          "the network is forbidden, and the cache ",
          settings.cache.string(),
          " has no model.safetensors of commit ",
          HubServer::kCommit,
          " of `org/model`"));
  EXPECT_EQ(server.requests("safetensors").size(), 0U);
}

// Another process
// --------------------------------------------------------------

accelerate::test::CommandOptions client(
    const std::map<std::string, std::string>& environment) {
  accelerate::test::CommandOptions options;
  options.words = {ACCELERATE_HUB_CLIENT, "org/model"};
  options.environment = environment;
  return options;
}

TEST_F(Hub, IsFoundThroughTheEnvironment) {
  serve(Json::object({{"token", "hf_file"}}));
  folder.write("token", "hf_file\n");

  const auto result = run_command(client(environment()));

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  expect_model(result.out.substr(0, result.out.size() - 1));
}

TEST_F(Hub, OneOfTwoProcessesDownloadsAndTheOtherWaits) {
  // The download stops at half until both have asked for the file, and so
  // until the second cannot but find the lock taken.
  HubServer& server = serve(Json::object({{"wait_for_heads", 2}}));
  std::vector<accelerate::test::CommandResult> results(2);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back(
          [&] { result = run_command(client(environment())); });
    }
  }

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_model(result.out.substr(0, result.out.size() - 1));
  }
  int downloads = 0;
  for (const Json& request : server.requests("model.safetensors")) {
    downloads += request.at("method").as_string() == "GET" ? 1 : 0;
  }
  EXPECT_EQ(downloads, 1);
}

TEST_F(Hub, GoesOnWhereAKilledProcessEnded) {
  HubServer& server = serve(Json::object({{"hang_after", 60'000}}));
  auto killed = client(environment());
  killed.watch = [&](pid_t pid, const std::string&) {
    std::error_code error;
    for (const auto& entry :
         fs::directory_iterator(model_folder() / "blobs", error)) {
      if (entry.path().extension() == ".incomplete" &&
          entry.file_size(error) == 60'000) {
        ::kill(pid, SIGKILL);
        return true;
      }
    }
    return false;
  };
  EXPECT_EQ(run_command(killed).exit_code, 128 + SIGKILL);

  const auto result = run_command(client(environment()));

  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_model(result.out.substr(0, result.out.size() - 1));
  EXPECT_EQ(
      server.requests("model.safetensors").back().at("range"),
      Json("bytes=60000-"));
}

TEST_F(Hub, PrintsWhatToDo) {
  serve();
  auto options = client(environment());
  options.environment["HF_HUB_OFFLINE"] = "1";

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("hint: unset HF_HUB_OFFLINE"));
}

}  // namespace
}  // namespace transformers::hub
