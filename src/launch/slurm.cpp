// SPDX-License-Identifier: Apache-2.0
#include "launch/slurm.h"

#include <cstdint>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxNodes = 65536;

[[noreturn]] void malformed(const std::string& text) {
  throw ConfigError(str_cat(
      "SLURM_JOB_NODELIST `", printable(text), "` is not a list of nodes"));
}

// Splits at commas outside brackets.
std::vector<std::string> split_nodes(const std::string& text) {
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

// Expands "01-03" to 01, 02, 03: keeps the width of the first number.
std::vector<std::string> expand_range(
    const std::string& range, const std::string& text) {
  const auto dash = range.find('-');
  const std::string first_text = range.substr(0, dash);
  const auto first = parse_integer(first_text);
  const auto last =
      dash == std::string::npos ? first : parse_integer(range.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first ||
      *last - *first >= static_cast<std::int64_t>(kMaxNodes)) {
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
    std::vector<std::string>& nodes) {
  const auto open = part.find('[');
  if (open == std::string::npos) {
    nodes.push_back(part);
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
        nodes.push_back(str_cat(head, number, tail));
        if (nodes.size() > kMaxNodes) {
          malformed(text);
        }
      }
    }
  }
}

// One port per job, below the kernel's range of ephemeral ports.
std::int64_t port_of_job(std::int64_t job) {
  return 20000 + job % 10000;
}

Origin found(std::string description) {
  return {Origin::Kind::found, std::move(description)};
}

// A file for one machine gives the processes per machine; every node runs that
// many.
void multiply_processes(Settings& settings, std::int64_t nodes) {
  const auto kind = settings.origin("num_processes").kind;
  if (kind != Origin::Kind::file) {
    return;
  }
  const std::int64_t per_machine = settings.integer("num_processes");
  settings.set(
      "num_processes",
      per_machine * nodes,
      found(str_cat(
          per_machine,
          " per machine (",
          settings.origin("num_processes").text(),
          "), ",
          nodes,
          " nodes (SLURM_JOB_NUM_NODES)")));
  // "NO" described a single process.
  if (settings.origin("distributed_type").kind == Origin::Kind::file &&
      settings.text("distributed_type") == "NO") {
    settings.set("distributed_type", Json(), Origin());
  }
}

// The machines are Slurm's nodes. `config default` writes `num_machines: 1` to
// every file, so that value does not express the user's choice.
void apply_nodes(Settings& settings, std::int64_t nodes) {
  const std::int64_t machines = settings.integer("num_machines");
  const bool set_by_user = settings.is_set_by_user("num_machines");
  if (set_by_user && machines != 1) {
    if (machines != nodes) {
      throw ConfigError(
          str_cat(
              "`num_machines` is ",
              machines,
              " (",
              settings.origin("num_machines").text(),
              "), but the Slurm job has ",
              nodes,
              " nodes (SLURM_JOB_NUM_NODES)"),
          "remove `num_machines`, or pass `--num_machines 1` to use only this "
          "node");
    }
    return;
  }
  if (set_by_user) {
    multiply_processes(settings, nodes);
  }
  settings.set("num_machines", nodes, found("SLURM_JOB_NUM_NODES"));
}

}  // namespace

std::vector<std::string> expand_node_list(const std::string& text) {
  std::vector<std::string> nodes;
  for (const std::string& part : split_nodes(text)) {
    if (part.empty()) {
      malformed(text);
    }
    expand_one(part, text, nodes);
  }
  return nodes;
}

void apply_slurm(Settings& settings, const Environment& environment) {
  const auto job = environment.get_integer("SLURM_JOB_ID", 0, INT64_MAX);
  const auto nodes = environment.get_integer("SLURM_JOB_NUM_NODES", 1);
  const auto node = environment.get_integer("SLURM_NODEID");
  const auto list = environment.get("SLURM_JOB_NODELIST");
  const bool ignores_slurm = settings.is_from_command_line("num_machines") &&
                             settings.integer("num_machines") == 1;
  if (!job || !nodes || *nodes < 2 || !node || !list || ignores_slurm) {
    return;
  }
  if (environment.get_integer("SLURM_LOCALID").value_or(0) > 0) {
    throw ConfigError(
        "srun started this launcher more than once on this machine",
        "use `srun --ntasks-per-node=1 accelerate launch …`");
  }
  apply_nodes(settings, *nodes);
  const auto put = [&](const char* name, Json value, const char* variable) {
    settings.set(name, std::move(value), found(variable));
  };
  // Every node reads the same file, so the rank in it is meaningless.
  if (!settings.is_from_command_line("machine_rank")) {
    put("machine_rank", *node, "SLURM_NODEID");
  }
  if (!settings.is_set_by_user("main_process_ip")) {
    put("main_process_ip", expand_node_list(*list)[0], "SLURM_JOB_NODELIST");
  }
  if (!settings.is_set_by_user("main_process_port")) {
    put("main_process_port", port_of_job(*job), "SLURM_JOB_ID");
  }
}

}  // namespace accelerate
