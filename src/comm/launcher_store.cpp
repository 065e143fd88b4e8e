// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher_store.h"

#include <mutex>
#include <utility>

#include <c10/util/Exception.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

using Value = std::vector<std::uint8_t>;

std::string_view as_text(const Value& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Value as_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

// The idle connections that a store and its clones share.
class LauncherStore::Connections {
 public:
  explicit Connections(StoreClientOptions options)
      : options_(std::move(options)) {
    // Connects immediately, so that the constructor throws if the address is
    // wrong.
    release(std::make_unique<StoreClient>(options_));
  }

  // Calls `use` with an exclusive connection. A connection that failed is not
  // reused, because its response may still arrive.
  template <typename Use>
  auto with(Use use) {
    std::unique_ptr<StoreClient> client = acquire();
    try {
      auto result = use(*client);
      release(std::move(client));
      return result;
    } catch (const StoreTimeout& error) {
      release(std::move(client));
      C10_THROW_ERROR(DistStoreError, error.what());
    } catch (const DistributedError&) {
      release(std::move(client));
      throw;
    }
  }

 private:
  std::unique_ptr<StoreClient> acquire() {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        auto client = std::move(idle_.back());
        idle_.pop_back();
        return client;
      }
    }
    return std::make_unique<StoreClient>(options_);
  }

  void release(std::unique_ptr<StoreClient> client) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(client));
  }

  StoreClientOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StoreClient>> idle_;
};

LauncherStore::LauncherStore(
    StoreClientOptions options, std::chrono::milliseconds timeout)
    : Store(timeout),
      connections_(std::make_shared<Connections>(std::move(options))) {
}

LauncherStore::~LauncherStore() = default;

c10::intrusive_ptr<c10d::Store> LauncherStore::clone() {
  // Every call uses its own connection, so a clone can share the connections.
  return c10::make_intrusive<LauncherStore>(*this);
}

void LauncherStore::set(const std::string& key, const Value& value) {
  connections_->with([&](StoreClient& client) {
    client.set(key, as_text(value));
    return true;
  });
}

Value LauncherStore::compareSet(
    const std::string& key, const Value& expected, const Value& desired) {
  return connections_->with([&](StoreClient& client) {
    return as_bytes(
        client.compare_set(key, as_text(expected), as_text(desired)));
  });
}

Value LauncherStore::get(const std::string& key) {
  return connections_->with(
      [&](StoreClient& client) { return as_bytes(client.get(key, timeout_)); });
}

std::int64_t LauncherStore::add(const std::string& key, std::int64_t value) {
  return connections_->with(
      [&](StoreClient& client) { return client.add(key, value); });
}

bool LauncherStore::deleteKey(const std::string& key) {
  return connections_->with(
      [&](StoreClient& client) { return client.erase(key); });
}

bool LauncherStore::check(const std::vector<std::string>& keys) {
  return connections_->with(
      [&](StoreClient& client) { return client.check(keys); });
}

std::int64_t LauncherStore::getNumKeys() {
  return connections_->with([](StoreClient& client) { return client.count(); });
}

void LauncherStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void LauncherStore::wait(
    const std::vector<std::string>& keys,
    const std::chrono::milliseconds& timeout) {
  connections_->with([&](StoreClient& client) {
    client.wait(keys, timeout);
    return true;
  });
}

void LauncherStore::append(const std::string& key, const Value& value) {
  connections_->with([&](StoreClient& client) {
    client.append(key, as_text(value));
    return true;
  });
}

std::vector<Value> LauncherStore::multiGet(
    const std::vector<std::string>& keys) {
  std::vector<Value> values;
  for (const std::string& key : keys) {
    values.push_back(get(key));
  }
  return values;
}

void LauncherStore::multiSet(
    const std::vector<std::string>& keys, const std::vector<Value>& values) {
  TORCH_CHECK_VALUE(
      keys.size() == values.size(),
      "multiSet: got ",
      keys.size(),
      " keys and ",
      values.size(),
      " values");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    set(keys[i], values[i]);
  }
}

bool LauncherStore::hasExtendedApi() const {
  return true;
}

void LauncherStore::set_status(const std::string& text) {
  connections_->with([&](StoreClient& client) {
    client.set_status(text);
    return true;
  });
}

void LauncherStore::report_failure(const std::string& text) {
  connections_->with([&](StoreClient& client) {
    client.report_failure(text);
    return true;
  });
}

std::vector<std::uint32_t> LauncherStore::disconnected_ranks() {
  return connections_->with(
      [](StoreClient& client) { return client.disconnected_ranks(); });
}

}  // namespace accelerate
