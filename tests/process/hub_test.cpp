// SPDX-License-Identifier: Apache-2.0
// Models from a server on loopback into the cache: what is asked for, and where
// it lies.
#include "base/files.h"
#include "base/hmac.h"
#include "process/hub_fixture.h"

namespace transformers::hub {
namespace {

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

}  // namespace
}  // namespace transformers::hub
