// SPDX-License-Identifier: Apache-2.0
// A test fixture with an empty cache and a Hub server on loopback.
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
#include "hub/resolve.h"
#include "support/hub_server.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

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
    hub_options.endpoint = server_->endpoint();
    return *server_;
  }

  Hub() {
    hub_options.cache = folder.path() / "cache";
    hub_options.first_pause = std::chrono::milliseconds(1);
    hub_options.max_pause = std::chrono::milliseconds(4);
  }

  fs::path resolve(
      const RequestedFiles& requested = {},
      const std::string& revision = "main") {
    return resolve_model("org/model", revision, requested, hub_options);
  }

  fs::path model_folder() const {
    return hub_options.cache / "models--org--model";
  }

  /// Returns the environment for a child process that downloads files.
  std::map<std::string, std::string> environment() const {
    return {
        {"HF_HUB_CACHE", hub_options.cache.string()},
        {"HF_HOME", folder.path().string()},
        {"HF_ENDPOINT", hub_options.endpoint}};
  }

  static void expect_model(const fs::path& path) {
    const accelerate::TemporaryDirectory reader;
    EXPECT_EQ(reader.read(path / "config.json"), "{\"model_type\": \"bert\"}");
    // EXPECT_EQ would print 100 000 bytes on failure.
    EXPECT_TRUE(
        reader.read(path / "model.safetensors") ==
        accelerate::test::large_file("model.safetensors", kSize));
  }

  accelerate::TemporaryDirectory folder;
  HubOptions hub_options;

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
