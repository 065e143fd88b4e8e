// SPDX-License-Identifier: Apache-2.0
// Messages in the Jupyter protocol, as frames on a socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/json.h"

namespace accelerate::jupyter {

struct Message {
  /// The ZeroMQ identities: the sender of a received message, or the receiver
  /// of a message to send.
  std::vector<std::string> identities;
  Json header = Json::object();
  Json parent = Json::object();
  Json metadata = Json::object();
  Json content = Json::object();
  std::string signature = {};  ///< The signature of a received message.

  /// Returns the message type, such as `execute_request`.
  std::string type() const;
};

using Frames = std::vector<std::string>;

/// Encodes a message and signs it with HMAC-SHA256. If `key` is empty, the
/// message is not signed.
Frames encode(const Message& message, const std::string& key);

/// Decodes a message. Returns nothing if the frames are malformed or not signed
/// with `key`.
std::optional<Message> decode(const Frames& frames, const std::string& key);

/// Returns a header for a message from this kernel.
Json make_header(const std::string& type, const std::string& session);

/// Returns a random unique identifier.
std::string make_id();

}  // namespace accelerate::jupyter
