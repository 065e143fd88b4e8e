// SPDX-License-Identifier: Apache-2.0
// The keys and values of the launcher's store, without any network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/store_protocol.h"

namespace accelerate {

/// What a request comes to.
struct StoreOutcome {
  enum class Kind {
    reply,  ///< Answer now, with `code` and `payload`.
    wait,   ///< Answer when `keys` are all there, or after `timeout_ms`.
  };
  Kind kind = Kind::reply;
  store::Reply code = store::Reply::ok;
  std::string payload;
  std::vector<std::string> keys;
  std::int64_t timeout_ms = 0;
  bool wants_value = false;  ///< A `get`: the answer is the first key's value.
  std::string changed_key;   ///< Somebody may be waiting for it.
};

class StoreData {
 public:
  /// Carries out a request on keys. Malformed ones are `Reply::refused`.
  StoreOutcome handle(store::Request request, std::string_view payload);

  const std::string* find(const std::string& key) const;
  /// The first of `keys` that is not there.
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
