// SPDX-License-Identifier: Apache-2.0
#include "jupyter/cell_output.h"

#include <utility>

#include "base/notebook_launch.h"
#include "jupyter/interpreter_protocol.h"
#include "jupyter/replies.h"

namespace accelerate::jupyter {
namespace {

// The part of `kNotebookBarBegin` that remains after a launcher with several
// ranks has processed the output.
constexpr std::string_view kBegin = "\x1b_";
constexpr std::string_view kEraseLine = "\x1b[K";
static_assert(std::string_view(kNotebookBarBegin).ends_with(kBegin));

// The number of bytes at the end of `text` that may begin an escape code.
std::size_t incomplete_escape(std::string_view text) {
  for (const std::string_view code :
       {std::string_view(kNotebookBarBegin), kBegin}) {
    for (std::size_t n = code.size() - 1; n > 0; --n) {
      const std::string_view part = code.substr(0, n);
      if (text.ends_with(part)) {
        return part == kClearLine ? 0 : n;
      }
    }
  }
  return 0;
}

void erase_all(std::string& text, std::string_view code) {
  for (auto at = text.find(code); at != std::string::npos;
       at = text.find(code, at)) {
    text.erase(at, code.size());
  }
}

}  // namespace

std::vector<OutputPiece> CellOutput::add(const std::string& bytes) {
  std::vector<OutputPiece> pieces;
  std::string kept;
  const std::string all = valid_utf8(std::exchange(rest_, {}) + bytes, kept);
  std::string_view left = all;
  for (;;) {
    const auto begin = left.find(kBegin);
    if (begin == std::string_view::npos) {
      break;
    }
    const auto end = left.find(kNotebookBarEnd, begin + kBegin.size());
    if (end == std::string_view::npos) {
      add_text(left.substr(0, begin), pieces);
      rest_ = std::string(left.substr(begin)) + kept;
      return pieces;
    }
    const auto state = begin + kBegin.size();
    add_bar(left.substr(0, begin), left.substr(state, end - state), pieces);
    left.remove_prefix(end + std::string_view(kNotebookBarEnd).size());
  }
  const auto incomplete = incomplete_escape(left);
  add_text(left.substr(0, left.size() - incomplete), pieces);
  rest_ = std::string(left.substr(left.size() - incomplete)) + kept;
  return pieces;
}

// The line of the bar may begin with the prefix of a rank.
void CellOutput::add_bar(
    std::string_view before,
    std::string_view state,
    std::vector<OutputPiece>& pieces) {
  const auto newline = before.rfind('\n');
  const auto cleared = before.rfind(kClearLine);
  auto text_end = newline == std::string_view::npos ? 0 : newline + 1;
  auto prefix_begin = text_end;
  if (cleared != std::string_view::npos && cleared >= text_end) {
    text_end = cleared;
    prefix_begin = cleared + kClearLine.size();
  }
  add_text(before.substr(0, text_end), pieces);
  std::string prefix(before.substr(prefix_begin));
  erase_all(prefix, kEraseLine);
  pieces.push_back({OutputPiece::Kind::bar, prefix + std::string(state)});
  after_bar_ = true;
}

void CellOutput::add_text(
    std::string_view text, std::vector<OutputPiece>& pieces) {
  static const std::string blanks =
      "\r" + std::string(kTerminalColumns, ' ') + "\r";
  if (text.empty()) {
    return;
  }
  if (std::exchange(after_bar_, false) && text.front() == '\n') {
    pieces.push_back({OutputPiece::Kind::bar_end});
    text.remove_prefix(1);
  }
  std::string shown;
  while (!text.empty()) {
    const auto at = text.find(kClearLine);
    shown += text.substr(0, at);
    if (!shown.empty()) {
      mid_line_ = shown.back() != '\n';
    }
    if (at == std::string_view::npos) {
      break;
    }
    shown += mid_line_ ? blanks : "";
    text.remove_prefix(at + kClearLine.size());
  }
  if (!shown.empty()) {
    pieces.push_back({OutputPiece::Kind::text, std::move(shown)});
  }
}

std::vector<OutputPiece> CellOutput::finish() {
  std::vector<OutputPiece> pieces;
  std::string incomplete;
  add_text(valid_utf8(std::exchange(rest_, {}), incomplete), pieces);
  after_bar_ = false;
  mid_line_ = false;
  return pieces;
}

}  // namespace accelerate::jupyter
