// SPDX-License-Identifier: Apache-2.0
#include "launch/failure.h"

#include <algorithm>
#include <csignal>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/signals.h"

namespace accelerate {
namespace {

constexpr std::size_t kShownLines = 10;

// Returns "a", "a and b" or "a, b and c".
std::string enumerate(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string others_text(const Failure& failure) {
  const std::int64_t others = failure.num_processes - 1;
  if (others == 0) {
    return "";
  }
  const std::int64_t stopped = failure.others_stopped;
  if (others == 1) {
    return stopped == 1                 ? "; the other rank was stopped"
           : failure.others_failed == 1 ? "; the other rank failed later"
                                        : "; the other rank had already exited";
  }
  if (stopped == others) {
    return str_cat("; the other ", others, " ranks were stopped");
  }
  std::vector<std::string> parts;
  if (stopped > 0) {
    parts.push_back(
        str_cat(stopped, stopped == 1 ? " was stopped" : " were stopped"));
  }
  if (failure.others_failed > 0) {
    parts.push_back(str_cat(failure.others_failed, " failed later"));
  }
  const std::int64_t exited = others - stopped - failure.others_failed;
  if (exited > 0) {
    parts.push_back(str_cat(exited, " had already exited"));
  }
  return str_cat("; of the other ", others, " ranks, ", enumerate(parts));
}

// A rank that exits early breaks the collectives of the other ranks, which then
// fail although they did nothing wrong.
std::string early_exit_hint(const Failure& failure) {
  std::vector<std::string> parts;
  for (const Failure::EarlyExit& exit : failure.early_exits) {
    parts.push_back(str_cat(
        "rank ", exit.rank, " (after ", format_seconds(exit.seconds), ")"));
  }
  return str_cat(
      "find out why ",
      enumerate(parts),
      " exited with code 0: rank ",
      failure.rank,
      " may still have been waiting for ",
      parts.size() == 1 ? "it" : "them");
}

// The lines that the C++ runtime prints for an uncaught exception; the report
// already shows this exception.
std::size_t lines_before_terminate(const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("terminate called ")) {
      return i;
    }
  }
  return lines.size();
}

std::string indented(const std::string& text, const char* indent) {
  std::string result;
  for (const std::string& line : split(text, '\n')) {
    result += str_cat(indent, printable(line), "\n");
  }
  return result;
}

}  // namespace

std::string failure_title(const Failure& failure) {
  if (!failure.disconnected_machine.empty()) {
    return str_cat(
        "machine ",
        printable(failure.disconnected_machine),
        " disconnected, ",
        format_seconds(failure.seconds),
        " into the run; this launcher stopped its own workers");
  }
  if (failure.is_preemption()) {
    return str_cat(
        "the program was preempted and exited, ",
        format_seconds(failure.seconds),
        " into the run",
        failure.step ? str_cat(", at step ", *failure.step) : std::string());
  }
  if (failure.interrupt != 0) {
    return str_cat(
        "interrupted by ",
        signal_name(failure.interrupt),
        " on ",
        failure.hostname,
        ", ",
        format_seconds(failure.seconds),
        " into the run",
        failure.is_plain_interrupt()
            ? std::string()
            : str_cat("; rank ", failure.rank, " then failed"));
  }
  if (failure.num_processes == 1) {
    return str_cat(
        "the program failed, ",
        format_seconds(failure.seconds),
        " into the run");
  }
  return str_cat(
      "rank ",
      failure.rank,
      " failed first, ",
      format_seconds(failure.seconds),
      " into the run",
      others_text(failure));
}

std::string failure_body(const Failure& failure) {
  if (!failure.disconnected_machine.empty()) {
    return "  the connection to that machine closed unexpectedly; no worker on "
           "that machine had reported a failure\n";
  }
  if (failure.is_preemption()) {
    return "";
  }
  if (failure.is_plain_interrupt()) {
    return failure.step ? str_cat(
                              "  rank ",
                              failure.rank,
                              " was at step ",
                              *failure.step,
                              "\n")
                        : std::string();
  }
  std::string exit = describe_exit(failure.exit_code, failure.signal);
  if (failure.signal == SIGKILL && failure.oom_kill.value_or(false)) {
    exit += " from the kernel's OOM killer";
  }
  std::string text = str_cat(
      "  rank ",
      failure.rank,
      " on ",
      failure.hostname,
      ", pid ",
      failure.pid,
      ": ",
      exit);
  if (failure.step) {
    text += str_cat(", at step ", *failure.step);
  }
  text += failure.status.empty()
              ? "\n"
              : str_cat("; last status: ", printable(failure.status), "\n");
  if (!failure.exception.empty()) {
    text += "  it reported:\n" + indented(failure.exception, "    ");
  }
  std::vector<std::string> lines = failure.last_lines;
  if (!failure.exception.empty()) {
    lines.resize(lines_before_terminate(lines));
  }
  if (!lines.empty()) {
    const std::size_t skip =
        lines.size() > kShownLines ? lines.size() - kShownLines : 0;
    text += lines.size() == 1 ? "  its last line:\n" : "  its last lines:\n";
    for (std::size_t i = skip; i < lines.size(); ++i) {
      text += str_cat("    ", printable(lines[i]), "\n");
    }
  } else if (failure.exception.empty()) {
    text += "  it printed nothing\n";
  }
  return text;
}

std::vector<std::string> failure_hints(const Failure& failure) {
  std::vector<std::string> hints;
  if (!failure.disconnected_machine.empty()) {
    return {
        "look for an error on that machine first, then check the network "
        "between the machines"};
  }
  if (failure.is_preemption()) {
    return {"start the program again to resume from its checkpoint"};
  }
  if (failure.interrupt != 0) {
    return hints;
  }
  if (failure.signal == SIGKILL && !failure.oom_kill.has_value()) {
    hints.push_back(str_cat(
        "check whether the kernel's OOM killer sent SIGKILL: run `dmesg -T | "
        "tail` on ",
        failure.hostname));
  } else if (failure.signal == SIGKILL && *failure.oom_kill) {
    hints.push_back(
        "use a smaller batch, fewer processes, or a machine with more memory");
  } else if (failure.signal == SIGKILL) {
    hints.push_back(
        "find out which user, batch system or container sent SIGKILL; it was "
        "not the kernel's OOM killer");
  }
  if (!failure.early_exits.empty()) {
    hints.push_back(early_exit_hint(failure));
  }
  if (!failure.log_path.empty()) {
    hints.push_back(str_cat(
        "see the full output of rank ",
        failure.rank,
        " in ",
        failure.log_path));
  }
  return hints;
}

ReportedError read_error_file(const std::string& path) {
  try {
    const Json json =
        Json::parse(read_file(path, std::size_t{1} << 20), {.source = path});
    const Json& message = json.at("message");
    ReportedError error;
    if (message.is_string()) {
      error.text = message.as_string();
    } else if (const Json* text = message.find("message")) {
      error.text = text->as_string();
    }
    if (const Json* extra = message.find("extraInfo")) {
      if (const Json* time = extra->find("timestamp")) {
        error.timestamp = time->is_string() ? parse_double(time->as_string())
                                            : std::optional(time->as_double());
      }
    }
    return error;
  } catch (const Error&) {
    // Most workers write no error file, and a malformed file must not hide the
    // failure.
    return {};
  }
}

}  // namespace accelerate
