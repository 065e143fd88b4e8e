// SPDX-License-Identifier: Apache-2.0
#include "comm/reporting_store.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/str_cat.h"
#include "comm/launcher_store.h"

namespace accelerate {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Value = std::vector<std::uint8_t>;
using Keys = std::vector<std::string>;

template <typename Request>
auto translated(const StoreErrorText& text, const Request& request) {
  try {
    return request();
  } catch (const Error&) {
    throw;
  } catch (const c10::DistStoreError&) {
    throw;  // LibTorch's backends handle timeouts.
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const std::exception& error) {
    // LibTorch appends a stack trace to its messages.
    const std::string_view reason = error.what();
    throw StoreError(
        str_cat(text.failure, ": ", reason.substr(0, reason.find('\n'))),
        text.hint);
  }
}

class ReportingStore : public c10d::Store {
 public:
  ReportingStore(StorePtr store, StoreErrorText text)
      : Store(store->getTimeout()),
        store_(std::move(store)),
        text_(std::move(text)) {}

  using c10d::Store::compareSet;
  using c10d::Store::set;

  StorePtr clone() override {
    return c10::make_intrusive<ReportingStore>(
        translated(text_, [&] { return store_->clone(); }), text_);
  }
  void set(const std::string& key, const Value& value) override {
    translated(text_, [&] { store_->set(key, value); });
  }
  Value compareSet(
      const std::string& key,
      const Value& expected,
      const Value& desired) override {
    return translated(
        text_, [&] { return store_->compareSet(key, expected, desired); });
  }
  Value get(const std::string& key) override {
    return translated(text_, [&] { return store_->get(key); });
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return translated(text_, [&] { return store_->add(key, value); });
  }
  bool deleteKey(const std::string& key) override {
    return translated(text_, [&] { return store_->deleteKey(key); });
  }
  bool check(const Keys& keys) override {
    return translated(text_, [&] { return store_->check(keys); });
  }
  std::int64_t getNumKeys() override {
    return translated(text_, [&] { return store_->getNumKeys(); });
  }
  void wait(const Keys& keys) override {
    translated(text_, [&] { store_->wait(keys); });
  }
  void wait(
      const Keys& keys, const std::chrono::milliseconds& timeout) override {
    translated(text_, [&] { store_->wait(keys, timeout); });
  }
  const std::chrono::milliseconds& getTimeout() const noexcept override {
    return store_->getTimeout();
  }
  void setTimeout(const std::chrono::milliseconds& timeout) override {
    store_->setTimeout(timeout);
  }
  void append(const std::string& key, const Value& value) override {
    translated(text_, [&] { store_->append(key, value); });
  }
  std::vector<Value> multiGet(const Keys& keys) override {
    return translated(text_, [&] { return store_->multiGet(keys); });
  }
  void multiSet(const Keys& keys, const std::vector<Value>& values) override {
    translated(text_, [&] { store_->multiSet(keys, values); });
  }
  bool hasExtendedApi() const override { return store_->hasExtendedApi(); }
  void queuePush(const std::string& key, const Value& value) override {
    translated(text_, [&] { store_->queuePush(key, value); });
  }
  Value queuePop(const std::string& key, bool block) override {
    return translated(text_, [&] { return store_->queuePop(key, block); });
  }
  std::int64_t queueLen(const std::string& key) override {
    return translated(text_, [&] { return store_->queueLen(key); });
  }
  Keys listKeys() override {
    return translated(text_, [&] { return store_->listKeys(); });
  }

 private:
  const StorePtr store_;
  const StoreErrorText text_;
};

// Whether requests already throw this library's errors.
bool has_own_errors(const c10d::Store& store) {
  const c10d::Store* at = &store;
  StorePtr kept;
  while (const auto* prefix = dynamic_cast<const c10d::PrefixStore*>(at)) {
    kept = const_cast<c10d::PrefixStore*>(prefix)->getUnderlyingStore();
    at = kept.get();
  }
  return dynamic_cast<const ReportingStore*>(at) != nullptr ||
         dynamic_cast<const LauncherStore*>(at) != nullptr;
}

}  // namespace

StoreError::~StoreError() = default;

StoreErrorText lost_store_text(const std::string& owner) {
  return {
      str_cat(
          "lost the connection to the store in ",
          owner,
          ", which has probably exited"),
      str_cat("the root cause is in the log of ", owner)};
}

StorePtr report_errors(const StorePtr& store, StoreErrorText text) {
  if (has_own_errors(*store)) {
    return store;
  }
  return c10::make_intrusive<ReportingStore>(store, std::move(text));
}

}  // namespace accelerate
