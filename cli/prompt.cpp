// SPDX-License-Identifier: Apache-2.0
#include "cli/prompt.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

// While an object of this class exists, the terminal delivers keys one by one
// without echo. Ctrl-C still works.
class RawInput {
 public:
  RawInput() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios mode = before_;
    mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &mode);
  }
  RawInput(const RawInput&) = delete;
  RawInput& operator=(const RawInput&) = delete;
  ~RawInput() { ::tcsetattr(STDIN_FILENO, TCSANOW, &before_); }

 private:
  termios before_{};
};

bool has_more_input() {
  pollfd entry{STDIN_FILENO, POLLIN, 0};
  return ::poll(&entry, 1, 50) > 0;
}

std::string menu_text(
    const std::vector<std::string>& choices, std::size_t selected) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    text += str_cat(i == selected ? " > " : "   ", choices[i], "\x1b[K\n");
  }
  return text;
}

}  // namespace

Prompt::Prompt(Console& console)
    : console_(console),
      is_terminal_(
          ::isatty(STDIN_FILENO) == 1 && ::isatty(console.err()) == 1) {
}

std::optional<char> Prompt::read_byte() {
  char byte = 0;
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got == 1) {
      return byte;
    }
    if (got == 0 || errno != EINTR) {
      return std::nullopt;
    }
  }
}

std::optional<std::string> Prompt::read_line() {
  std::string line;
  while (line.size() < 4096) {
    const auto byte = read_byte();
    if (!byte && line.empty()) {
      return std::nullopt;
    }
    if (!byte || *byte == '\n') {
      break;
    }
    line += *byte;
  }
  return std::string(trim(line));
}

std::string Prompt::ask(
    const std::string& question,
    const std::string& default_answer,
    const std::function<void(const std::string&)>& parse) {
  while (true) {
    console_.write_error(
        default_answer.empty() ? str_cat(question, " ")
                               : str_cat(question, " [", default_answer, "] "));
    const auto line = read_line();
    const std::string answer = line && !line->empty() ? *line : default_answer;
    if (!is_terminal_) {
      console_.write_error("\n");
    }
    try {
      parse(answer);
      return answer;
    } catch (const Error& error) {
      // After the end of input, asking again would not help.
      if (!line) {
        throw;
      }
      console_.write_error(str_cat("  ", error.what(), "\n"));
    }
  }
}

std::string Prompt::choose(
    const std::string& question,
    const std::vector<std::string>& choices,
    const std::string& default_choice) {
  const auto found = std::find(choices.begin(), choices.end(), default_choice);
  const auto index = static_cast<std::size_t>(found - choices.begin());
  if (is_terminal_) {
    return choose_by_keys(question, choices, index);
  }
  std::string chosen;
  ask(str_cat(question, " (", join(choices, ", "), ")"),
      default_choice,
      [&](const std::string& answer) {
        const auto match = std::find(choices.begin(), choices.end(), answer);
        if (match == choices.end()) {
          throw ConfigError(str_cat(
              "`",
              printable(answer),
              "` is not one of the choices: ",
              join(choices, ", ")));
        }
        chosen = answer;
      });
  return chosen;
}

std::string Prompt::choose_by_keys(
    const std::string& question,
    const std::vector<std::string>& choices,
    std::size_t selected) {
  const RawInput raw;
  const std::string up = str_cat("\x1b[", choices.size(), "A");
  console_.write_raw(str_cat(
      question,
      " [",
      choices[selected],
      "] (arrow keys, Enter)\n",
      menu_text(choices, selected)));
  while (true) {
    const auto key = read_byte();
    if (!key || *key == '\r' || *key == '\n') {
      break;
    }
    char move = *key;
    if (move == '\x1b' && has_more_input()) {
      (void)read_byte();  // Skips `[` or `O` of the escape sequence.
      const auto arrow = read_byte();
      move = !arrow ? '\0' : *arrow == 'A' ? 'k' : *arrow == 'B' ? 'j' : '\0';
    }
    if (move == 'k' && selected > 0) {
      --selected;
    } else if (move == 'j' && selected + 1 < choices.size()) {
      ++selected;
    } else if (move >= '1' && move <= '9') {
      selected = std::min<std::size_t>(
          static_cast<std::size_t>(move - '1'), choices.size() - 1);
    }
    console_.write_raw(up + menu_text(choices, selected));
  }
  // Replaces the menu with the question and its answer.
  console_.write_raw(str_cat(
      "\x1b[",
      choices.size() + 1,
      "A\x1b[J",
      question,
      " ",
      choices[selected],
      "\n"));
  return choices[selected];
}

}  // namespace accelerate
