// SPDX-License-Identifier: Apache-2.0
#include "comm/run_collectively.h"

#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/wait_limits.h"

namespace accelerate {
namespace {

struct OwnOutcome {
  RankOutcome outcome;
  std::exception_ptr error;
};

OwnOutcome run(const std::function<Json()>& work) {
  try {
    return {{work(), "", ""}, nullptr};
  } catch (const Error& error) {
    return {{{}, error.what(), error.hint()}, std::current_exception()};
  } catch (const std::exception& error) {
    return {{{}, error.what(), ""}, std::current_exception()};
  } catch (...) {
    return {
        {{}, "an exception that does not derive from std::exception", ""},
        std::current_exception()};
  }
}

// An error with an empty message must still count as an error.
Json encode(const OwnOutcome& own) {
  const RankOutcome& outcome = own.outcome;
  if (!own.error) {
    return Json::object({{"value", outcome.value}});
  }
  return Json::object(
      {{"error", outcome.error.empty() ? "no error message" : outcome.error},
       {"hint", outcome.hint}});
}

RankOutcome decode(const Json& encoded) {
  if (const Json* error = encoded.find("error")) {
    return {{}, error->as_string(), encoded.at("hint").as_string()};
  }
  return {encoded.at("value"), "", ""};
}

RankOutcomes collect(
    const std::function<std::vector<Json>(const Json&)>& gather,
    const std::function<Json()>& work) {
  const OwnOutcome own = run(work);
  RankOutcomes outcomes;
  outcomes.own_error = own.error;
  try {
    for (const Json& encoded : gather(encode(own))) {
      outcomes.ranks.push_back(decode(encoded));
    }
  } catch (const Error&) {
    if (own.error) {
      std::rethrow_exception(own.error);
    }
    throw;
  }
  return outcomes;
}

}  // namespace

bool RankOutcomes::all_succeeded() const {
  return std::ranges::all_of(
      ranks, [](const RankOutcome& rank) { return rank.error.empty(); });
}

std::string RankOutcomes::table() const {
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].error.empty()) {
      text += str_cat("\n  rank ", rank, ": ", ranks[rank].error);
    }
  }
  return text;
}

std::string RankOutcomes::merged_table() const {
  std::vector<std::pair<std::string, std::vector<int>>> ranks_by_error;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string& error = ranks[rank].error;
    if (error.empty()) {
      continue;
    }
    auto found = std::ranges::find(
        ranks_by_error, error, &decltype(ranks_by_error)::value_type::first);
    if (found == ranks_by_error.end()) {
      found = ranks_by_error.insert(ranks_by_error.end(), {error, {}});
    }
    found->second.push_back(static_cast<int>(rank));
  }
  if (ranks_by_error.size() == 1 &&
      ranks_by_error.front().second.size() == ranks.size()) {
    return ranks_by_error.front().first;
  }
  std::string text;
  for (const auto& [error, failed] : ranks_by_error) {
    text += str_cat("\n  ", name_ranks(failed), ": ", error);
  }
  return text;
}

std::string RankOutcomes::first_hint() const {
  for (const RankOutcome& rank : ranks) {
    if (!rank.hint.empty()) {
      return rank.hint;
    }
  }
  return "";
}

RankOutcomes try_collectively(
    const GatherTexts& gather, const std::function<Json()>& work) {
  return collect(
      [&](const Json& own) {
        std::vector<Json> all;
        for (const std::string& text : gather(own.dump())) {
          all.push_back(Json::parse(text));
        }
        return all;
      },
      work);
}

RankOutcomes try_collectively(
    const Group& group, const std::function<Json()>& work) {
  return collect(
      [&](const Json& own) { return group.gather_object({own}); }, work);
}

void run_collectively(
    const Group& group,
    const std::string& context,
    const std::function<void()>& work) {
  const RankOutcomes outcomes = try_collectively(group, [&] {
    work();
    return Json();
  });
  if (outcomes.own_error) {
    std::rethrow_exception(outcomes.own_error);
  }
  if (!outcomes.all_succeeded()) {
    throw RankError(
        context + outcomes.table(),
        "look at the logs of the ranks above; this rank did not fail");
  }
}

}  // namespace accelerate
