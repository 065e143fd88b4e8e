// SPDX-License-Identifier: Apache-2.0
// What a cell writes, in the form that the output area of a cell can show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelerate::jupyter {

/// A part of what a cell wrote.
struct OutputPiece {
  enum class Kind {
    text,     ///< text for the stream
    bar,      ///< the state of a progress bar, which replaces the previous one
    bar_end,  ///< the bar is complete; a later state belongs to another bar
  };

  Kind kind = Kind::text;
  std::string text = {};

  friend bool operator==(const OutputPiece&, const OutputPiece&) = default;
};

/// Splits the bytes of one stream into text and the states of progress bars. A
/// bar is then shown as one output that is updated in place, whatever else is
/// printed. As plain text it would be split: a client joins the text of a
/// stream only until another stream prints.
///
/// An output area supports carriage returns, but not the escape code that
/// clears a line, so the text gets spaces that overwrite the line instead.
class CellOutput {
 public:
  /// Keeps back an incomplete character, escape code or bar at the end of
  /// `bytes`. Replaces bytes that are not UTF-8 with U+FFFD.
  std::vector<OutputPiece> add(const std::string& bytes);
  /// Returns what was kept back, and forgets the bar. For the end of a cell.
  std::vector<OutputPiece> finish();

 private:
  void add_bar(
      std::string_view before,
      std::string_view state,
      std::vector<OutputPiece>& pieces);
  void add_text(std::string_view text, std::vector<OutputPiece>& pieces);

  std::string rest_;
  bool after_bar_ = false;  // A bar was drawn last, with no newline after it.
  bool mid_line_ = false;   // The text does not end with a newline.
};

}  // namespace accelerate::jupyter
