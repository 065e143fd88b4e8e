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

std::string others_text(const Failure& failure) {
  const std::int64_t others = failure.num_processes - 1;
  if (others == 0) {
    return "";
  }
  if (failure.others_stopped == others) {
    return others == 1 ? "; the other one was stopped"
                       : str_cat("; the other ", others, " were stopped");
  }
  std::string text = str_cat("; of the other ", others, ", ");
  text += str_cat(failure.others_stopped, " were stopped");
  if (failure.others_failed > 0) {
    text += str_cat(", ", failure.others_failed, " failed after it");
  }
  const auto done = others - failure.others_stopped - failure.others_failed;
  if (done > 0) {
    text += str_cat(", ", done, " had ended");
  }
  return text;
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
  if (!failure.lost_machine.empty()) {
    return str_cat(
        "machine ",
        printable(failure.lost_machine),
        " was lost, ",
        format_seconds(failure.seconds),
        " into the run; the workers here were stopped");
  }
  if (failure.is_preemption()) {
    return str_cat(
        "the program left because it was asked to, ",
        format_seconds(failure.seconds),
        " into the run",
        failure.step ? str_cat(", at step ", *failure.step) : std::string());
  }
  if (failure.interrupt != 0) {
    return str_cat(
        "interrupted by ",
        signal_name(failure.interrupt),
        " on ",
        failure.host,
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
  if (!failure.lost_machine.empty()) {
    return "  its connection ended without a word; the workers there are not "
           "known to have failed\n";
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
  std::string how = describe_exit(failure.exit_code, failure.signal);
  if (failure.signal == SIGKILL && failure.memory_kill.value_or(false)) {
    how += " by the kernel, because memory ran out";
  }
  std::string text = str_cat(
      "  rank ",
      failure.rank,
      " on ",
      failure.host,
      ", pid ",
      failure.pid,
      ": ",
      how);
  if (failure.step) {
    text += str_cat(", at step ", *failure.step);
  }
  text += failure.status.empty()
              ? "\n"
              : str_cat("; it was last at: ", printable(failure.status), "\n");
  if (!failure.exception.empty()) {
    text += "  it reported:\n" + indented(failure.exception, "    ");
  }
  const auto& lines = failure.last_lines;
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
  if (!failure.lost_machine.empty()) {
    return {
        "look for an error on that machine first, then at the network "
        "between the two"};
  }
  if (failure.is_preemption()) {
    return {"start it again to go on from its checkpoint"};
  }
  if (failure.interrupt != 0) {
    return hints;
  }
  if (failure.signal == SIGKILL && !failure.memory_kill.has_value()) {
    hints.push_back(str_cat(
        "a SIGKILL with no message is usually the kernel's memory killer; see "
        "`dmesg -T | tail` on ",
        failure.host));
  } else if (failure.signal == SIGKILL && *failure.memory_kill) {
    hints.push_back(
        "use a smaller batch, fewer processes, or a machine with more memory");
  } else if (failure.signal == SIGKILL) {
    hints.push_back(
        "somebody sent it SIGKILL: a user, a batch system or a container's "
        "limit; the kernel counted no memory kill");
  }
  if (!failure.log_path.empty()) {
    hints.push_back(
        str_cat("full output of rank ", failure.rank, ": ", failure.log_path));
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
    // Absent for nearly every worker, and never a reason to hide a failure.
    return {};
  }
}

}  // namespace accelerate
