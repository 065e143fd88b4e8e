// SPDX-License-Identifier: Apache-2.0
#include "launch/store_data.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace accelerate {
namespace {

using store::Reader;
using store::Reply;
using store::Request;
using store::Writer;

StoreOutcome refused(const char* reason) {
  StoreOutcome outcome;
  outcome.code = Reply::refused;
  outcome.payload = reason;
  return outcome;
}

StoreOutcome replied(std::string payload) {
  StoreOutcome outcome;
  outcome.payload = std::move(payload);
  return outcome;
}

StoreOutcome changed(std::string key, std::string payload) {
  StoreOutcome outcome = replied(std::move(payload));
  outcome.changed_key = std::move(key);
  return outcome;
}

// Stops at the end of the payload if it contains fewer keys than it announces.
std::vector<std::string> read_keys(Reader& reader) {
  const auto count = reader.number<std::uint32_t>();
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    keys.emplace_back(reader.string());
  }
  return keys;
}

}  // namespace

StoreOutcome StoreData::handle(Request request, std::string_view payload) {
  Reader reader(payload);
  switch (request) {
    case Request::set:
      return set(reader);
    case Request::get:
      return get(reader);
    case Request::add:
      return add(reader);
    case Request::compare_set:
      return compare_set(reader);
    case Request::check:
      return check(reader);
    case Request::wait:
      return wait(reader);
    case Request::erase:
      return erase(reader);
    case Request::count:
      return replied(
          Writer().number(static_cast<std::int64_t>(values_.size())).take());
    case Request::append:
      return append(reader);
    case Request::status:
    case Request::fail:
    case Request::disconnected_ranks:
    case Request::exchange:
    case Request::disconnect:
      break;
  }
  return refused("unknown request");
}

const std::string* StoreData::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::string> StoreData::first_missing(
    const std::vector<std::string>& keys) const {
  const auto missing =
      std::find_if(keys.begin(), keys.end(), [&](const std::string& key) {
        return find(key) == nullptr;
      });
  return missing == keys.end() ? std::nullopt : std::optional(*missing);
}

StoreOutcome StoreData::set(Reader& reader) {
  const std::string key(reader.string());
  const std::string_view value = reader.string();
  if (!reader.done()) {
    return refused("malformed `set` request");
  }
  values_[key] = value;
  return changed(key, "");
}

StoreOutcome StoreData::get(Reader& reader) {
  StoreOutcome outcome;
  outcome.kind = StoreOutcome::Kind::wait;
  outcome.keys.emplace_back(reader.string());
  outcome.timeout_ms = reader.number<std::int64_t>();
  outcome.wants_value = true;
  return reader.done() ? outcome : refused("malformed `get` request");
}

StoreOutcome StoreData::add(Reader& reader) {
  const std::string key(reader.string());
  const auto amount = reader.number<std::int64_t>();
  if (!reader.done()) {
    return refused("malformed `add` request");
  }
  // Stored as decimal text, which a `get` of a counter returns in other stores,
  // too.
  std::string& value = values_[key];
  const auto before = value.empty() ? 0 : parse_integer(value);
  if (!before) {
    return refused("`add` to a value that is not a number");
  }
  const auto sum = static_cast<std::int64_t>(
      static_cast<std::uint64_t>(*before) + static_cast<std::uint64_t>(amount));
  value = std::to_string(sum);
  return changed(key, Writer().number(sum).take());
}

StoreOutcome StoreData::compare_set(Reader& reader) {
  const std::string key(reader.string());
  const std::string_view expected = reader.string();
  const std::string_view desired = reader.string();
  if (!reader.done()) {
    return refused("malformed `compare_set` request");
  }
  const auto found = values_.find(key);
  if (found == values_.end()) {
    if (!expected.empty()) {
      return replied(std::string(expected));
    }
    values_[key] = desired;
    return changed(key, std::string(desired));
  }
  if (found->second == expected) {
    found->second = desired;
    return changed(key, std::string(desired));
  }
  return replied(found->second);
}

StoreOutcome StoreData::check(Reader& reader) {
  const auto keys = read_keys(reader);
  if (!reader.done()) {
    return refused("malformed `check` request");
  }
  return replied(std::string(1, first_missing(keys) ? '\0' : '\1'));
}

StoreOutcome StoreData::wait(Reader& reader) {
  StoreOutcome outcome;
  outcome.kind = StoreOutcome::Kind::wait;
  outcome.timeout_ms = reader.number<std::int64_t>();
  outcome.keys = read_keys(reader);
  return reader.done() ? outcome : refused("malformed `wait` request");
}

StoreOutcome StoreData::erase(Reader& reader) {
  const std::string key(reader.string());
  if (!reader.done()) {
    return refused("malformed `erase` request");
  }
  return replied(std::string(1, values_.erase(key) > 0 ? '\1' : '\0'));
}

StoreOutcome StoreData::append(Reader& reader) {
  const std::string key(reader.string());
  const std::string_view value = reader.string();
  if (!reader.done()) {
    return refused("malformed `append` request");
  }
  values_[key] += value;
  return changed(key, "");
}

}  // namespace accelerate
