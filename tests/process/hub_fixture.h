// SPDX-License-Identifier: Apache-2.0
// A cache in a folder of its own and a server on loopback to fill it from.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/str_cat.h"
#include "support/hub_server.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"
#include "transformers/hub/resolve.h"

namespace transformers::hub {

namespace fs = std::filesystem;
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

inline std::vector<std::string> names_in(const fs::path& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_directory()) {
      names.push_back(entry.path().lexically_relative(path).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace transformers::hub
