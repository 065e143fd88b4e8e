// SPDX-License-Identifier: Apache-2.0
// The launcher's store as LibTorch knows stores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/store_client.h"

namespace accelerate {

/// A `c10d::Store` in the process of `accelerate launch`.
///
/// Thread-safe: each call has a connection of its own while it lasts, so a long
/// wait holds nobody up. A wait that runs out throws `c10::DistStoreError`, as
/// LibTorch's own stores do; when the launcher ends the job, every call throws
/// `DistributedError` that says why.
class LauncherStore : public c10d::Store {
 public:
  LauncherStore(StoreClientOptions options, std::chrono::milliseconds timeout);
  ~LauncherStore() override;

  // The overloads of the base that take strings.
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

  /// What this rank is doing, for `accelerate launch` to show on Ctrl-\.
  void set_status(const std::string& text);
  /// The exception this rank is about to die of, for the failure report.
  void report_failure(const std::string& text);
  /// Ranks whose processes have left.
  std::vector<std::uint32_t> departed();

 private:
  class Connections;
  std::shared_ptr<Connections> connections_;
};

}  // namespace accelerate
