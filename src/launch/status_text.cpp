// SPDX-License-Identifier: Apache-2.0
#include "launch/status_text.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

const RankStatus* find_rank(
    const std::vector<RankStatus>& statuses, std::int64_t rank) {
  const auto found = std::find_if(
      statuses.begin(), statuses.end(), [&](const RankStatus& status) {
        return status.rank == rank;
      });
  return found == statuses.end() ? nullptr : &*found;
}

std::string step_text(const std::optional<std::int64_t>& step) {
  return step ? str_cat(", at step ", *step) : std::string();
}

// The collective and the ranks that it is waiting for, or the store key.
std::string wait_text(const RankStatus& status) {
  std::string text;
  if (!status.status.empty()) {
    text += ", " + printable(status.status);
  }
  if (!status.waiting_for.empty()) {
    text += str_cat(
        ", has waited ",
        format_seconds(status.waiting_seconds),
        " for store key `",
        printable(status.waiting_for),
        "`");
  }
  return text;
}

std::string state_of(const LocalWorker& worker) {
  if (!worker.exit.empty()) {
    return worker.exit;
  }
  return worker.is_stopped
             ? str_cat(
                   "stopped; run `kill -CONT ", worker.pid, "` to resume it")
             : "running";
}

std::string local_line(
    const LocalWorker& worker, const std::vector<RankStatus>& statuses) {
  std::string text = str_cat(
      "\n  rank ",
      worker.rank,
      ", pid ",
      worker.pid,
      ": ",
      state_of(worker),
      step_text(worker.step));
  const RankStatus* status = find_rank(statuses, worker.rank);
  return status == nullptr || !worker.exit.empty() ? text
                                                   : text + wait_text(*status);
}

std::string remote_line(std::int64_t rank, const RankStatus* status) {
  std::string text = str_cat("\n  rank ", rank, " on another machine: ");
  if (status == nullptr) {
    return text + "has not connected to the store";
  }
  text += status->is_connected ? "running" : "disconnected";
  return text + step_text(status->step) + wait_text(*status);
}

}  // namespace

std::string status_text(
    double seconds,
    std::int64_t num_processes,
    const std::vector<LocalWorker>& workers,
    const std::vector<RankStatus>& statuses) {
  const auto running =
      std::count_if(workers.begin(), workers.end(), [](const auto& worker) {
        return worker.exit.empty() && !worker.is_stopped;
      });
  std::string text = str_cat(
      "status after ",
      format_seconds(seconds),
      ": ",
      running,
      " of ",
      workers.size(),
      workers.size() == 1 ? " worker running on this machine"
                          : " workers running on this machine");
  for (std::int64_t rank = 0; rank < num_processes; ++rank) {
    const auto local =
        std::find_if(workers.begin(), workers.end(), [&](const auto& worker) {
          return worker.rank == rank;
        });
    text += local != workers.end()
                ? local_line(*local, statuses)
                : remote_line(rank, find_rank(statuses, rank));
  }
  return text;
}

Json status_to_json(const std::vector<RankStatus>& ranks) {
  Json list = Json::array();
  for (const RankStatus& status : ranks) {
    list.push_back(Json::object(
        {{"rank", static_cast<std::int64_t>(status.rank)},
         {"is_connected", status.is_connected},
         {"status", status.status},
         {"waiting_for", status.waiting_for},
         {"waiting_seconds", status.waiting_seconds},
         {"step", status.step ? Json(*status.step) : Json()}}));
  }
  return list;
}

std::vector<RankStatus> status_from_json(const Json& json) {
  std::vector<RankStatus> ranks;
  for (const Json& entry : json.as_array()) {
    RankStatus status;
    status.rank = static_cast<std::uint32_t>(entry.at("rank").as_integer());
    status.is_connected = entry.at("is_connected").as_bool();
    status.status = entry.at("status").as_string();
    status.waiting_for = entry.at("waiting_for").as_string();
    status.waiting_seconds = entry.at("waiting_seconds").as_double();
    if (!entry.at("step").is_null()) {
      status.step = entry.at("step").as_integer();
    }
    ranks.push_back(std::move(status));
  }
  return ranks;
}

}  // namespace accelerate
