// SPDX-License-Identifier: Apache-2.0
// Messages of the Jupyter protocol, as frames on a socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/json.h"

namespace accelerate::jupyter {

struct Message {
  /// Who sent it, or who gets it.
  std::vector<std::string> identities;
  Json header = Json::object();
  Json parent = Json::object();
  Json metadata = Json::object();
  Json content = Json::object();

  /// `execute_request` and its kind.
  std::string type() const;
};

using Frames = std::vector<std::string>;

/// Signs with `key`, as HMAC-SHA256; an empty key signs nothing.
Frames encode(const Message& message, const std::string& key);

/// Nothing when the frames are no message, or its signature is not `key`'s.
std::optional<Message> decode(const Frames& frames, const std::string& key);

/// A header for a message of this kernel.
Json make_header(const std::string& type, const std::string& session);

/// An identifier nobody else has.
std::string make_id();

}  // namespace accelerate::jupyter
