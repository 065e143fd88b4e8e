// SPDX-License-Identifier: Apache-2.0
// Converts the output of a cell to a form that clients can display.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelerate::jupyter {

/// A part of a cell's output.
struct OutputPiece {
  enum class Kind {
    text,     ///< text that a client appends to the stream
    bar,      ///< the state of a progress bar, which replaces the previous one
    bar_end,  ///< the bar is complete; a later state belongs to another bar
  };

  Kind kind = Kind::text;
  std::string text = {};

  friend bool operator==(const OutputPiece&, const OutputPiece&) = default;
};

/// Splits the bytes of one stream into text and the states of progress bars. A
/// client can then show each bar as one output that is updated in place. Plain
/// text is not enough: a client starts a new output whenever the other stream
/// prints, and this would split the bar.
///
/// The output area of a client supports carriage returns, but not the escape
/// code that clears a line, so this class overwrites the line with spaces.
class CellOutput {
 public:
  /// Returns the pieces in `bytes`. Holds back an incomplete character, escape
  /// code or bar at the end until the next call. Replaces bytes that are not
  /// UTF-8 with U+FFFD.
  std::vector<OutputPiece> add(const std::string& bytes);
  /// Returns the bytes that were held back, and resets the state of the bar.
  /// Must be called at the end of each cell.
  std::vector<OutputPiece> finish();

 private:
  void add_bar(
      std::string_view before,
      std::string_view state,
      std::vector<OutputPiece>& pieces);
  void add_text(std::string_view text, std::vector<OutputPiece>& pieces);

  std::string rest_;
  // Whether the last output is a bar without a newline.
  bool after_bar_ = false;
  // Whether the text so far does not end with a newline.
  bool mid_line_ = false;
};

}  // namespace accelerate::jupyter
