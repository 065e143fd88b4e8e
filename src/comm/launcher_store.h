// SPDX-License-Identifier: Apache-2.0
// The launcher's store as a LibTorch store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/store_client.h"

namespace accelerate {

/// A `c10d::Store` whose data is in the process of `accelerate launch`.
///
/// Thread-safe: each call uses its own connection, so a call that waits
/// does not block other calls. A call that times out throws
/// `c10::DistStoreError`, like LibTorch's stores. When the launcher stops the
/// job, every call throws `DistributedError` with the reason.
class LauncherStore : public c10d::Store {
 public:
  LauncherStore(StoreClientOptions options, std::chrono::milliseconds timeout);
  ~LauncherStore() override;

  // The overloads of the base class that take strings.
  using c10d::Store::compareSet;
  using c10d::Store::set;

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(
      const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(
      const std::string& key,
      const std::vector<std::uint8_t>& expected,
      const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override;
  void append(
      const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::vector<std::uint8_t>> multiGet(
      const std::vector<std::string>& keys) override;
  void multiSet(
      const std::vector<std::string>& keys,
      const std::vector<std::vector<std::uint8_t>>& values) override;
  bool hasExtendedApi() const override;

  /// Reports what this rank is doing; `accelerate launch` shows `text` when the
  /// user presses Ctrl-\.
  void set_status(const std::string& text);
  /// Reports the exception that is about to terminate this rank.
  void report_failure(const std::string& text);
  /// Returns the ranks whose connections to the launcher have closed.
  std::vector<std::uint32_t> disconnected_ranks();

 private:
  class Connections;
  std::shared_ptr<Connections> connections_;
};

}  // namespace accelerate
