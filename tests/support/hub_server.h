// SPDX-License-Identifier: Apache-2.0
// A Hub server on loopback; hub_server.py describes its scenarios.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accelerate/json.h"
#include "base/unique_fd.h"

namespace accelerate::test {

/// Serves the model `org/model` while the object exists.
class HubServer {
 public:
  static constexpr const char* kCommit =
      "0123456789abcdef0123456789abcdef01234567";

  /// The fields of `scenario` override the fields of the default scenario,
  /// which is a model with four files. The requests are logged in `folder`.
  HubServer(const std::filesystem::path& folder, const Json& scenario);
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;
  ~HubServer();

  std::string endpoint() const;
  int port() const { return port_; }
  int second_port() const { return second_port_; }
  /// Returns the requests so far whose path contains `part`.
  std::vector<Json> requests(const std::string& part = "") const;

 private:
  std::filesystem::path log_;
  pid_t pid_ = -1;
  UniqueFd input_;
  int port_ = 0;
  int second_port_ = 0;
};

/// Returns the content that the server sends for a large file with this name
/// and size.
std::string large_file(const std::string& name, std::size_t size);

}  // namespace accelerate::test
