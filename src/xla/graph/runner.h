// SPDX-License-Identifier: Apache-2.0
// Compiles recorded programs, keeps them, and runs them on all devices.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "xla/graph/program_store.h"
#include "xla/graph/trace.h"

namespace accelerate::xla {

/// What a runner has done so far.
struct RunnerCounts {
  std::int64_t compiled = 0;  ///< Programs compiled by the plugin.
  std::int64_t loaded = 0;    ///< Programs read from disk instead.
  std::int64_t executed = 0;  ///< Programs run.
  std::int64_t donated = 0;   ///< Buffers donated by the last run.
  double compile_seconds = 0;
  /// CPU time spent on listing programs and computing their fingerprints.
  double lookup_seconds = 0;
};

/// Runs programs on the mesh of all devices of a client. Not thread-safe:
/// callers hold `Tracer::lock`.
class Runner {
 public:
  /// `store` keeps programs for later processes. Without a store, programs are
  /// kept only in memory.
  Runner(
      const Plugin& plugin, Client client, std::optional<ProgramStore> store);

  const Client& client() const { return client_; }
  const RunnerCounts& counts() const { return counts_; }

  /// Starts the program that computes `outputs` and returns their values as
  /// inputs of later programs, in the same order. `kept` are the inputs that
  /// must not be donated.
  std::vector<Value> run(
      const std::vector<Output>& outputs,
      const std::unordered_set<const Node*>& kept);

  /// Copies a dense row-major array to every device, or a part of it to each
  /// device if `sharding` has a dimension.
  Value upload(
      const void* from,
      ElementType type,
      const Shape& shape,
      const Sharding& sharding = {}) const;

  /// Copies the whole value of an input into dense row-major memory.
  void download(const Node& input, void* to) const;

  /// Waits for all started programs. Throws if one of them failed.
  void wait();

 private:
  const Executable& program_for(const Trace& trace, const Fingerprint& print);
  std::optional<Executable> load(const std::string& key) const;
  void save(const std::string& key, const Executable& program);
  std::string key_of(const std::string& text) const;
  void limit_pending();

  struct Hash {
    std::size_t operator()(const Fingerprint& print) const { return print.low; }
  };

  Client client_;
  std::optional<ProgramStore> store_;
  std::string platform_;  ///< Everything a program depends on except its text.
  std::unordered_map<Fingerprint, Executable, Hash> programs_;
  std::deque<std::vector<Event>> pending_;
  RunnerCounts counts_;
};

}  // namespace accelerate::xla
