// SPDX-License-Identifier: Apache-2.0
#include "accelerator/run_collectively.h"

#include <exception>
#include <utility>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

/// The exception of one rank.
struct RankOutcome {
  std::exception_ptr error;
  Json text;  ///< null: no exception
};

RankOutcome outcome_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return {std::current_exception(), Json(error.what())};
  } catch (...) {
    return {
        std::current_exception(),
        Json("an exception that does not derive from std::exception")};
  }
}

// This rank's own exception is more useful than the failure of the process
// group.
std::vector<Json> gather_texts(const Group& group, const RankOutcome& local) {
  try {
    return group.gather_object({local.text});
  } catch (const Error&) {
    if (local.error) {
      std::rethrow_exception(local.error);
    }
    throw;
  }
}

}  // namespace

void run_collectively(
    const Group& group,
    const std::string& context,
    const std::function<void()>& work) {
  const RankOutcome local = outcome_of(work);
  const std::vector<Json> texts = gather_texts(group, local);
  if (local.error) {
    std::rethrow_exception(local.error);
  }
  std::string problems;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].is_null()) {
      problems += str_cat("\n  rank ", rank, ": ", texts[rank].as_string());
    }
  }
  if (!problems.empty()) {
    throw RankError(
        str_cat(context, problems),
        "look at the logs of the ranks above; this rank did not fail");
  }
}

std::string collect_problems(
    const Group& group, const std::function<void()>& work) {
  const std::vector<Json> texts = gather_texts(group, outcome_of(work));
  std::vector<std::pair<std::string, std::string>> ranks_by_text;
  std::size_t succeeded = 0;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].is_null()) {
      ++succeeded;
      continue;
    }
    const std::string& text = texts[rank].as_string();
    auto found = ranks_by_text.begin();
    while (found != ranks_by_text.end() && found->first != text) {
      ++found;
    }
    if (found == ranks_by_text.end()) {
      ranks_by_text.emplace_back(text, str_cat("rank ", rank));
    } else {
      found->second += str_cat(", ", rank);
    }
  }
  if (succeeded == 0 && ranks_by_text.size() == 1) {
    return ranks_by_text.front().first;
  }
  std::string problems;
  for (const auto& [text, ranks] : ranks_by_text) {
    problems += str_cat("\n  ", ranks, ": ", text);
  }
  return problems;
}

}  // namespace accelerate
