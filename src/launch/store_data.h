// SPDX-License-Identifier: Apache-2.0
// The keys and values of the launcher's store. No network code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/store_protocol.h"

namespace accelerate {

/// The result of a request to the store.
struct StoreOutcome {
  enum class Kind {
    reply,  ///< Answer now, with `code` and `payload`.
    wait,   ///< Answer when all `keys` exist, or after `timeout_ms`.
  };
  Kind kind = Kind::reply;
  store::Reply code = store::Reply::ok;
  std::string payload;
  std::vector<std::string> keys;
  std::int64_t timeout_ms = 0;
  /// Whether the answer is the first key's value (`get`).
  bool wants_value = false;
  std::string changed_key;  ///< The key that the request changed, if any.
};

class StoreData {
 public:
  /// Executes a request that reads or changes keys. Malformed requests get
  /// `Reply::refused`.
  StoreOutcome handle(store::Request request, std::string_view payload);

  const std::string* find(const std::string& key) const;
  /// Returns the first of `keys` that does not exist; empty if all keys exist.
  std::optional<std::string> first_missing(
      const std::vector<std::string>& keys) const;
  void clear() { values_.clear(); }

 private:
  StoreOutcome set(store::Reader& reader);
  StoreOutcome get(store::Reader& reader);
  StoreOutcome add(store::Reader& reader);
  StoreOutcome compare_set(store::Reader& reader);
  StoreOutcome check(store::Reader& reader);
  StoreOutcome wait(store::Reader& reader);
  StoreOutcome erase(store::Reader& reader);
  StoreOutcome append(store::Reader& reader);

  std::unordered_map<std::string, std::string> values_;
};

}  // namespace accelerate
