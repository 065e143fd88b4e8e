// SPDX-License-Identifier: Apache-2.0
#include "accelerator/run_together.h"

#include <exception>
#include <utility>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

/// What one rank threw.
struct Thrown {
  std::exception_ptr error;
  Json text;  ///< null: nothing
};

Thrown thrown_by(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return {std::current_exception(), Json(error.what())};
  } catch (...) {
    return {std::current_exception(), Json("an exception of an unknown kind")};
  }
}

// A group that is lost says less than what this rank threw itself.
std::vector<Json> texts_of_all(const Group& group, const Thrown& mine) {
  try {
    return group.gather_object({mine.text});
  } catch (const DistributedError&) {
    if (mine.error) {
      std::rethrow_exception(mine.error);
    }
    throw;
  }
}

}  // namespace

void run_together(
    const Group& group,
    const std::string& what,
    const std::function<void()>& work) {
  const Thrown mine = thrown_by(work);
  const std::vector<Json> texts = texts_of_all(group, mine);
  if (mine.error) {
    std::rethrow_exception(mine.error);
  }
  std::string problems;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].is_null()) {
      problems += str_cat("\n  rank ", rank, ": ", texts[rank].as_string());
    }
  }
  if (!problems.empty()) {
    throw PeerError(
        str_cat(what, problems), "look at that process; this one was fine");
  }
}

std::string problems_of(const Group& group, const std::function<void()>& work) {
  const std::vector<Json> texts = texts_of_all(group, thrown_by(work));
  std::vector<std::pair<std::string, std::string>> ranks_by_text;
  std::size_t fine = 0;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].is_null()) {
      ++fine;
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
  if (fine == 0 && ranks_by_text.size() == 1) {
    return ranks_by_text.front().first;
  }
  std::string problems;
  for (const auto& [text, ranks] : ranks_by_text) {
    problems += str_cat("\n  ", ranks, ": ", text);
  }
  return problems;
}

}  // namespace accelerate
