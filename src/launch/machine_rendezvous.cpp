// SPDX-License-Identifier: Apache-2.0
#include "launch/machine_rendezvous.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/text.h"
#include "config/settings.h"

namespace accelerate {

Json MachineInfo::to_json() const {
  return Json::object(
      {{"machine_rank", machine_rank},
       {"hostname", hostname},
       {"address", address},
       {"job", job},
       {"agreement", agreement}});
}

MachineInfo MachineInfo::from_json(const Json& json) {
  MachineInfo machine;
  machine.machine_rank = json.at("machine_rank").as_integer();
  machine.hostname = printable(json.at("hostname").as_string());
  machine.address = printable(json.at("address").as_string());
  if (const Json* job = json.find("job")) {
    machine.job = printable(job->as_string());
  }
  machine.agreement = json.at("agreement");
  (void)machine.agreement.as_object();
  return machine;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += " " + row[i] + std::string(widths[i] - row[i].size() + 1, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

std::string MachineRendezvous::stranger_text(const MachineInfo& machine) const {
  const auto name = [](const std::string& job) {
    return job.empty() ? std::string("a job without Slurm") : job;
  };
  return machine.job == job_ ? ""
                             : str_cat(
                                   "this is machine 0 of ",
                                   name(job_),
                                   ", but ",
                                   machine.hostname,
                                   " belongs to ",
                                   name(machine.job));
}

MachineRendezvous::Entry MachineRendezvous::add(MachineInfo machine) {
  if (machine.machine_rank < 0) {
    machine.machine_rank = 0;
    while (machines_.contains(machine.machine_rank)) {
      ++machine.machine_rank;
    }
  }
  const std::int64_t rank = machine.machine_rank;
  if (is_complete()) {
    return {
        -1, str_cat("all ", num_machines_, " machines have already joined")};
  }
  if (rank >= num_machines_) {
    return {
        -1,
        str_cat(
            "there is no machine_rank ",
            rank,
            "; the job has ",
            num_machines_,
            " machines, numbered from 0")};
  }
  const auto duplicate = machines_.find(rank);
  if (duplicate != machines_.end()) {
    return {
        -1,
        str_cat(
            "machine_rank ",
            rank,
            " is already used by ",
            duplicate->second.hostname,
            " (",
            duplicate->second.address,
            ")")};
  }
  machines_.emplace(rank, std::move(machine));
  return {rank, ""};
}

void MachineRendezvous::add_refusal(
    const std::string& address, const std::string& reason) {
  // One line per IP address and reason, so that a port scanner fills neither
  // the memory nor the table.
  const auto ip_of = [](const std::string& text) {
    return text.substr(0, text.rfind(':'));
  };
  const bool known =
      std::any_of(refusals_.begin(), refusals_.end(), [&](const auto& refusal) {
        return ip_of(refusal.first) == ip_of(address) &&
               refusal.second == reason;
      });
  if (refusals_.size() < 16 && !known) {
    refusals_.emplace_back(address, reason);
  }
}

bool MachineRendezvous::refused_a_secret() const {
  return std::any_of(
      refusals_.begin(), refusals_.end(), [](const auto& refusal) {
        return refusal.second.find("secret") != std::string::npos;
      });
}

std::string MachineRendezvous::missing_text(
    const std::string& endpoint, double seconds) const {
  std::vector<std::vector<std::string>> rows = {
      {"machine", "hostname", "address", "state"}};
  for (std::int64_t rank = 0; rank < num_machines_; ++rank) {
    const auto found = machines_.find(rank);
    if (found == machines_.end()) {
      rows.push_back({std::to_string(rank), "-", "-", "missing"});
    } else {
      rows.push_back(
          {std::to_string(rank),
           found->second.hostname,
           found->second.address,
           "joined"});
    }
  }
  for (const auto& [address, reason] : refusals_) {
    rows.push_back({"-", "-", address, "refused: " + reason});
  }
  const auto missing =
      num_machines_ - static_cast<std::int64_t>(machines_.size());
  return str_cat(
      missing,
      " of ",
      num_machines_,
      " machines did not join at ",
      endpoint,
      " within ",
      format_seconds(seconds),
      "\n\n",
      format_table(rows));
}

std::string MachineRendezvous::difference_text() const {
  if (machines_.empty()) {
    return {};
  }
  std::vector<std::vector<std::string>> rows;
  const Json& first = machines_.begin()->second.agreement;
  for (const auto& [key, value] : first.as_object()) {
    std::vector<std::string> row = {key};
    bool differs = false;
    for (const auto& [rank, machine] : machines_) {
      const Json* other = machine.agreement.find(key);
      row.push_back(
          other == nullptr ? "-" : printable(value_text(*other)).substr(0, 60));
      differs = differs || other == nullptr || *other != value;
    }
    if (differs) {
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) {
    return {};
  }
  std::vector<std::string> title = {"setting"};
  for (const auto& [rank, machine] : machines_) {
    title.push_back(str_cat("machine ", rank, " (", machine.hostname, ")"));
  }
  rows.insert(rows.begin(), std::move(title));
  return str_cat(
      "the machines have different settings\n\n", format_table(rows));
}

}  // namespace accelerate
