// SPDX-License-Identifier: Apache-2.0
// Where the machines of a job meet: who is there, who is missing, who differs.
// No network here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {

/// What a machine says about itself when it comes.
struct MachineCard {
  std::int64_t machine_rank = -1;  ///< -1: to be given in order of arrival.
  std::string host;
  std::string address;
  /// What must be equal on all of them: version, program, settings.
  Json agreement = Json::object();

  Json to_json() const;
  static MachineCard from_json(const Json& json);
};

/// The list of machines that have come.
class Meeting {
 public:
  explicit Meeting(std::int64_t num_machines) : num_machines_(num_machines) {}

  /// Adds a machine. Returns its rank, or what is wrong with it.
  struct Entry {
    std::int64_t rank = -1;
    std::string error;
  };
  Entry add(MachineCard card);
  /// A machine has left again.
  void remove(std::int64_t rank) { machines_.erase(rank); }
  /// Remembers somebody who was sent away, for the table.
  void add_refusal(const std::string& address, const std::string& why);

  bool is_complete() const {
    return static_cast<std::int64_t>(machines_.size()) == num_machines_;
  }
  const std::map<std::int64_t, MachineCard>& machines() const {
    return machines_;
  }

  /// "machine 2 did not come", with the table of all; for people.
  std::string missing_text(const std::string& where, double seconds) const;
  /// What differs, as a table; empty when all agree.
  std::string difference_text() const;

 private:
  std::int64_t num_machines_;
  std::map<std::int64_t, MachineCard> machines_;
  std::vector<std::pair<std::string, std::string>> refusals_;
};

/// Columns wide enough for their longest cell, indented by two spaces.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace accelerate
