// SPDX-License-Identifier: Apache-2.0
#include "launch/meeting.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/text.h"
#include "config/settings.h"

namespace accelerate {

Json MachineCard::to_json() const {
  return Json::object(
      {{"machine_rank", machine_rank},
       {"host", host},
       {"address", address},
       {"agreement", agreement}});
}

MachineCard MachineCard::from_json(const Json& json) {
  MachineCard card;
  card.machine_rank = json.at("machine_rank").as_integer();
  card.host = printable(json.at("host").as_string());
  card.address = printable(json.at("address").as_string());
  card.agreement = json.at("agreement");
  (void)card.agreement.as_object();
  return card;
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

Meeting::Entry Meeting::add(MachineCard card) {
  if (card.machine_rank < 0) {
    card.machine_rank = 0;
    while (machines_.contains(card.machine_rank)) {
      ++card.machine_rank;
    }
  }
  const std::int64_t rank = card.machine_rank;
  if (is_complete()) {
    return {-1, str_cat("all ", num_machines_, " machines are here already")};
  }
  if (rank >= num_machines_) {
    return {
        -1,
        str_cat(
            "machine_rank ", rank, " of ", num_machines_, " does not exist")};
  }
  const auto twin = machines_.find(rank);
  if (twin != machines_.end()) {
    return {
        -1,
        str_cat(
            "machine_rank ",
            rank,
            " is taken by ",
            twin->second.host,
            " (",
            twin->second.address,
            ")")};
  }
  machines_.emplace(rank, std::move(card));
  return {rank, ""};
}

void Meeting::add_refusal(const std::string& address, const std::string& why) {
  // A port scanner must not fill the memory, nor the table: one line for each
  // host and reason.
  const auto host_of = [](const std::string& text) {
    return text.substr(0, text.rfind(':'));
  };
  const bool known =
      std::any_of(refusals_.begin(), refusals_.end(), [&](const auto& refusal) {
        return host_of(refusal.first) == host_of(address) &&
               refusal.second == why;
      });
  if (refusals_.size() < 16 && !known) {
    refusals_.emplace_back(address, why);
  }
}

std::string Meeting::missing_text(
    const std::string& where, double seconds) const {
  std::vector<std::vector<std::string>> rows = {
      {"machine", "host", "address", "state"}};
  for (std::int64_t rank = 0; rank < num_machines_; ++rank) {
    const auto found = machines_.find(rank);
    if (found == machines_.end()) {
      rows.push_back({std::to_string(rank), "-", "-", "missing"});
    } else {
      rows.push_back(
          {std::to_string(rank),
           found->second.host,
           found->second.address,
           "here"});
    }
  }
  for (const auto& [address, why] : refusals_) {
    rows.push_back({"-", "-", address, "refused: " + why});
  }
  const auto missing =
      num_machines_ - static_cast<std::int64_t>(machines_.size());
  return str_cat(
      missing,
      " of ",
      num_machines_,
      " machines did not come to ",
      where,
      " within ",
      format_seconds(seconds),
      "\n\n",
      format_table(rows));
}

std::string Meeting::difference_text() const {
  std::vector<std::vector<std::string>> rows;
  const Json& first = machines_.begin()->second.agreement;
  for (const auto& [key, value] : first.as_object()) {
    std::vector<std::string> row = {key};
    bool differs = false;
    for (const auto& [rank, card] : machines_) {
      const Json* here = card.agreement.find(key);
      row.push_back(
          here == nullptr ? "-" : printable(value_text(*here)).substr(0, 60));
      differs = differs || here == nullptr || *here != value;
    }
    if (differs) {
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) {
    return {};
  }
  std::vector<std::string> title = {"setting"};
  for (const auto& [rank, card] : machines_) {
    title.push_back(str_cat("machine ", rank, " (", card.host, ")"));
  }
  rows.insert(rows.begin(), std::move(title));
  return str_cat("the machines disagree\n\n", format_table(rows));
}

}  // namespace accelerate
