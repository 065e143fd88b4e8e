// SPDX-License-Identifier: Apache-2.0
// The rendezvous of a job's machines: which machines have joined, which are
// missing, and which have different settings. No network code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {

/// The information that a machine sends when it joins.
struct MachineInfo {
  /// The rank that the machine requests; -1 if machines get ranks in the order
  /// in which they join.
  std::int64_t machine_rank = -1;
  std::string hostname;
  std::string address;
  /// The job that the machine belongs to; see `MainAddress::job`.
  std::string job;
  /// Values that must be the same on all machines: version, program and
  /// settings.
  Json agreement = Json::object();

  Json to_json() const;
  static MachineInfo from_json(const Json& json);
};

/// The list of machines that have joined.
class MachineRendezvous {
 public:
  explicit MachineRendezvous(std::int64_t num_machines, std::string job = "")
      : num_machines_(num_machines), job_(std::move(job)) {}

  /// The rank of an added machine, or the reason why it was rejected.
  struct Entry {
    std::int64_t rank = -1;
    std::string error;
  };
  /// Returns why a machine of another job cannot join; empty for this job's
  /// machines.
  std::string stranger_text(const MachineInfo& machine) const;
  Entry add(MachineInfo machine);
  /// Removes a machine that disconnected.
  void remove(std::int64_t rank) { machines_.erase(rank); }
  /// Records a refused connection for the table in `missing_text`.
  void add_refusal(const std::string& address, const std::string& reason);
  /// Returns whether a connection was refused because of a wrong job secret.
  bool refused_a_secret() const;

  bool is_complete() const {
    return static_cast<std::int64_t>(machines_.size()) == num_machines_;
  }
  const std::map<std::int64_t, MachineInfo>& machines() const {
    return machines_;
  }

  /// Returns the error text "1 of 3 machines did not join …", with a table of
  /// all machines.
  std::string missing_text(const std::string& endpoint, double seconds) const;
  /// Returns a table of the settings that differ between machines; empty if no
  /// setting differs.
  std::string difference_text() const;

 private:
  std::int64_t num_machines_;
  std::string job_;
  std::map<std::int64_t, MachineInfo> machines_;
  std::vector<std::pair<std::string, std::string>> refusals_;
};

/// Formats rows as aligned columns, indented by two spaces.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace accelerate
