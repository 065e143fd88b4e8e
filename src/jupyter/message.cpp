// SPDX-License-Identifier: Apache-2.0
#include "jupyter/message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/str_cat.h"

namespace accelerate::jupyter {
namespace {

constexpr std::string_view kDelimiter = "<IDS|MSG>";

std::string sign(
    const std::array<std::string, 4>& parts, const std::string& key) {
  if (key.empty()) {
    return "";
  }
  const Digest digest =
      hmac_sha256(key, str_cat(parts[0], parts[1], parts[2], parts[3]));
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string now() {
  const auto time = std::chrono::system_clock::now();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
                          time.time_since_epoch())
                          .count() %
                      1'000'000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  const auto size =
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string digits = std::to_string(1'000'000 + micros);
  return str_cat(
      std::string_view(text.data(), size), ".", digits.substr(1), "Z");
}

}  // namespace

std::string Message::type() const {
  const Json* const found = header.find("msg_type");
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

Frames encode(const Message& message, const std::string& key) {
  const std::array<std::string, 4> parts = {
      message.header.dump(),
      message.parent.dump(),
      message.metadata.dump(),
      message.content.dump()};
  Frames frames = message.identities;
  frames.emplace_back(kDelimiter);
  frames.push_back(sign(parts, key));
  frames.insert(frames.end(), parts.begin(), parts.end());
  return frames;
}

std::optional<Message> decode(const Frames& frames, const std::string& key) {
  const auto delimiter = std::find(frames.begin(), frames.end(), kDelimiter);
  if (frames.end() - delimiter < 6) {
    return std::nullopt;
  }
  const std::array<std::string, 4> parts = {
      delimiter[2], delimiter[3], delimiter[4], delimiter[5]};
  if (!equal_in_constant_time(
          sign(parts, key), key.empty() ? "" : delimiter[1])) {
    return std::nullopt;
  }
  try {
    return Message{
        {frames.begin(), delimiter},
        Json::parse(parts[0]),
        Json::parse(parts[1]),
        Json::parse(parts[2]),
        Json::parse(parts[3]),
        delimiter[1]};
  } catch (const Error&) {
    return std::nullopt;
  }
}

Json make_header(const std::string& type, const std::string& session) {
  return Json::object(
      {{"msg_id", make_id()},
       {"session", session},
       {"username", "kernel"},
       {"date", now()},
       {"msg_type", type},
       {"version", "5.3"}});
}

std::string make_id() {
  return to_hex(random_bytes(16));
}

}  // namespace accelerate::jupyter
