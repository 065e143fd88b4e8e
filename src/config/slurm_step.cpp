// SPDX-License-Identifier: Apache-2.0
#include "config/slurm_step.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxNodes = 65536;

struct NodeList {
  const char* variable;
  const std::string& text;

  [[noreturn]] void refuse() const {
    throw ConfigError(
        str_cat(
            "environment variable ",
            variable,
            " is `",
            printable(text),
            "`, not a list of nodes like `node[01-03,7],login`"),
        "start the program with `srun`, which sets this variable");
  }
};

// Splits at commas outside brackets.
std::vector<std::string> split_nodes(const NodeList& list) {
  std::vector<std::string> parts = {""};
  int depth = 0;
  for (const char c : list.text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) {
      list.refuse();
    }
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) {
    list.refuse();
  }
  return parts;
}

// Expands "01-03" to 01, 02, 03: keeps the width of the first number.
std::vector<std::string> expand_range(
    const std::string& range, const NodeList& list) {
  const auto dash = range.find('-');
  const std::string first_text = range.substr(0, dash);
  const auto first = parse_integer(first_text);
  const auto last =
      dash == std::string::npos ? first : parse_integer(range.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first ||
      *last - *first >= static_cast<std::int64_t>(kMaxNodes)) {
    list.refuse();
  }
  std::vector<std::string> numbers;
  for (std::int64_t number = *first; number <= *last; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first_text.size()) {
      digits.insert(0, first_text.size() - digits.size(), '0');
    }
    numbers.push_back(digits);
  }
  return numbers;
}

void expand_one(
    const std::string& part,
    const NodeList& list,
    std::vector<std::string>& nodes) {
  const auto open = part.find('[');
  if (open == std::string::npos) {
    nodes.push_back(part);
    return;
  }
  const auto close = part.find(']', open);
  const std::string head = part.substr(0, open);
  std::vector<std::string> tails;
  expand_one(part.substr(close + 1), list, tails);
  for (const std::string& range :
       split(part.substr(open + 1, close - open - 1), ',')) {
    for (const std::string& number : expand_range(range, list)) {
      for (const std::string& tail : tails) {
        nodes.push_back(str_cat(head, number, tail));
        if (nodes.size() > kMaxNodes) {
          list.refuse();
        }
      }
    }
  }
}

// The last step of SplitMix64, so that consecutive numbers give unrelated
// results.
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

}  // namespace

std::optional<SlurmStep> SlurmStep::of(const Environment& environment) {
  const auto job = environment.get_integer("SLURM_JOB_ID", 0, INT64_MAX);
  const auto step = environment.get_integer("SLURM_STEP_ID", 0, INT64_MAX);
  return step ? std::optional(SlurmStep{job.value_or(0), *step}) : std::nullopt;
}

std::string SlurmStep::name() const {
  return str_cat("step ", step, " of Slurm job ", job);
}

// The ports are below the Linux kernel's range of ephemeral ports, so that
// connections of other processes do not occupy them.
std::vector<std::uint16_t> SlurmStep::ports() const {
  constexpr std::uint64_t kFirst = 20000;
  constexpr std::uint64_t kCount = 10000;
  constexpr std::size_t kCandidates = 8;
  std::vector<std::uint16_t> ports;
  std::uint64_t state =
      mix(static_cast<std::uint64_t>(job)) ^ static_cast<std::uint64_t>(step);
  while (ports.size() < kCandidates) {
    state += 0x9e3779b97f4a7c15U;
    const auto port = static_cast<std::uint16_t>(kFirst + mix(state) % kCount);
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) {
      ports.push_back(port);
    }
  }
  return ports;
}

std::vector<std::string> expand_node_list(
    const char* variable, const std::string& list) {
  const NodeList whole{variable, list};
  std::vector<std::string> nodes;
  for (const std::string& part : split_nodes(whole)) {
    if (part.empty()) {
      whole.refuse();
    }
    expand_one(part, whole, nodes);
  }
  return nodes;
}

}  // namespace accelerate
