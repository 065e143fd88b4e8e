// SPDX-License-Identifier: Apache-2.0
// Downloads from a server on loopback: the requests, and the layout of the
// cache.
#include "base/files.h"
#include "base/hmac.h"
#include "process/hub_fixture.h"

namespace transformers::hub {
namespace {

TEST_F(Hub, UsesTheCacheLayoutOfPython) {
  serve();

  const fs::path path = resolve();

  EXPECT_EQ(path, model_folder() / "snapshots" / HubServer::kCommit);
  expect_model(path);
  EXPECT_EQ(folder.read(model_folder() / "refs/main"), HubServer::kCommit);
  // tests/parity/check_hub.py compares this layout with the layout that Python
  // creates.
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
  hub_options.offline = true;

  const fs::path path = resolve();

  EXPECT_EQ(path, model_folder() / "snapshots" / HubServer::kCommit);
  EXPECT_EQ(folder.read(path / "config.json"), "{\"model_type\": \"bert\"}");
  EXPECT_EQ(fs::file_size(path / "model.safetensors"), 1000U);
}

TEST_F(Hub, RequestsOnlyTheListWhenAllFilesAreCached) {
  HubServer& server = serve();
  resolve();
  const auto before = server.requests().size();

  resolve();

  EXPECT_EQ(server.requests().size(), before + 1);
}

TEST_F(Hub, RequestsNothingWhenTheCommitIsCached) {
  HubServer& server = serve();
  resolve();
  const auto before = server.requests().size();

  expect_model(resolve({}, HubServer::kCommit));

  EXPECT_EQ(server.requests().size(), before);
}

TEST_F(Hub, DownloadsOnlyTheRequestedContent) {
  HubServer& server = serve();

  resolve({.content = Content::tokenizer});

  EXPECT_THAT(server.requests("model.safetensors"), testing::IsEmpty());
  EXPECT_EQ(server.requests("tokenizer.json").size(), 2U);
}

TEST_F(Hub, DownloadsFilesByNameAndPattern) {
  HubServer& server = serve();

  resolve({.files = {"README.md", "*.json"}});

  EXPECT_EQ(server.requests("README.md").size(), 2U);
  EXPECT_EQ(server.requests("tokenizer.json").size(), 2U);
  EXPECT_THAT(server.requests("safetensors"), testing::IsEmpty());
  EXPECT_EQ(
      message_of<IoError>([&] { resolve({.files = {"missing.json"}}); }),
      "`org/model` at 01234567 has no file `missing.json`");
}

TEST_F(Hub, DownloadsTheShardsOfAnIndex) {
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

TEST_F(Hub, FollowsTheRedirectOfARenamedModel) {
  serve();

  expect_model(resolve_model("old/model", "main", {}, hub_options));
}

TEST_F(Hub, DoesNotSendTheTokenToAnotherServer) {
  HubServer& server =
      serve(Json::object({{"token", "hf_secret"}, {"redirect", true}}));
  hub_options.token = "hf_secret";

  expect_model(resolve());

  int second_server_requests = 0;
  for (const Json& request : server.requests()) {
    const bool second = request.at("server").as_integer() == 2;
    second_server_requests += second ? 1 : 0;
    EXPECT_EQ(
        request.at("authorization"), second ? Json() : Json("Bearer hf_secret"))
        << request.dump();
  }
  EXPECT_EQ(second_server_requests, 1);
}

TEST_F(Hub, UsesOnlyTheCacheWhenOffline) {
  HubServer& server = serve();
  hub_options.offline = true;
  EXPECT_EQ(
      message_of<IoError>([&] { resolve(); }),
      str_cat(
          "network access is disabled, and the cache ",
          hub_options.cache.string(),
          " does not contain revision `main` of `org/model`"));
  hub_options.offline = false;
  const fs::path path = resolve({.content = Content::tokenizer});
  hub_options.offline = true;

  EXPECT_EQ(resolve({.content = Content::tokenizer}), path);
  EXPECT_EQ(
      message_of<IoError>([&] { resolve(); }),
      str_cat(
          "network access is disabled, and the cache ",
          hub_options.cache.string(),
          " does not contain model.safetensors at commit ",
          HubServer::kCommit,
          " of `org/model`"));
  EXPECT_EQ(server.requests("safetensors").size(), 0U);
}

}  // namespace
}  // namespace transformers::hub
