// SPDX-License-Identifier: Apache-2.0
#include "launch/slurm.h"

#include <cstdint>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxHosts = 65536;

[[noreturn]] void malformed(const std::string& text) {
  throw ConfigError(str_cat(
      "SLURM_JOB_NODELIST `", printable(text), "` is not a list of hosts"));
}

// Splits at commas outside brackets.
std::vector<std::string> split_hosts(const std::string& text) {
  std::vector<std::string> parts = {""};
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) {
      malformed(text);
    }
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) {
    malformed(text);
  }
  return parts;
}

// "01-03" to 01, 02, 03: the width of the first number is kept.
std::vector<std::string> expand_range(
    const std::string& range, const std::string& text) {
  const auto dash = range.find('-');
  const std::string first_text = range.substr(0, dash);
  const auto first = parse_integer(first_text);
  const auto last =
      dash == std::string::npos ? first : parse_integer(range.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first ||
      *last - *first >= static_cast<std::int64_t>(kMaxHosts)) {
    malformed(text);
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
    const std::string& text,
    std::vector<std::string>& hosts) {
  const auto open = part.find('[');
  if (open == std::string::npos) {
    hosts.push_back(part);
    return;
  }
  const auto close = part.find(']', open);
  const std::string head = part.substr(0, open);
  std::vector<std::string> tails;
  expand_one(part.substr(close + 1), text, tails);
  for (const std::string& range :
       split(part.substr(open + 1, close - open - 1), ',')) {
    for (const std::string& number : expand_range(range, text)) {
      for (const std::string& tail : tails) {
        hosts.push_back(str_cat(head, number, tail));
        if (hosts.size() > kMaxHosts) {
          malformed(text);
        }
      }
    }
  }
}

// Ports below the range from which the kernel hands out its own, one per job.
std::int64_t port_of_job(std::int64_t job) {
  return 20000 + job % 10000;
}

}  // namespace

std::vector<std::string> expand_host_list(const std::string& text) {
  std::vector<std::string> hosts;
  for (const std::string& part : split_hosts(text)) {
    if (part.empty()) {
      malformed(text);
    }
    expand_one(part, text, hosts);
  }
  return hosts;
}

void apply_slurm(Settings& settings, const Environment& environment) {
  const auto job = environment.get_integer("SLURM_JOB_ID", 0, INT64_MAX);
  const auto nodes = environment.get_integer("SLURM_JOB_NUM_NODES", 1);
  const auto node = environment.get_integer("SLURM_NODEID");
  const auto list = environment.get("SLURM_JOB_NODELIST");
  if (!job || !nodes || *nodes < 2 || !node || !list ||
      settings.is_given("num_machines")) {
    return;
  }
  if (environment.get_integer("SLURM_LOCALID").value_or(0) > 0) {
    throw ConfigError(
        "srun started this launcher more than once on this machine",
        "use `srun --ntasks-per-node=1 accelerate launch …`");
  }
  const auto put = [&](const char* name, Json value, const char* variable) {
    if (!settings.is_given(name)) {
      settings.set(name, std::move(value), {Origin::Kind::found, variable});
    }
  };
  put("num_machines", *nodes, "SLURM_JOB_NUM_NODES");
  put("machine_rank", *node, "SLURM_NODEID");
  put("main_process_ip", expand_host_list(*list)[0], "SLURM_JOB_NODELIST");
  put("main_process_port", port_of_job(*job), "SLURM_JOB_ID");
}

}  // namespace accelerate
