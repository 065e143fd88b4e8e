// SPDX-License-Identifier: Apache-2.0
// Reads JSON text from left to right without building values, so that a
// vocabulary of 100 000 entries is read directly into its tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace transformers::tokenizers {

/// A position in JSON text. For malformed text, every function throws
/// `FormatError` with the message `source:line:column: path: message`.
class JsonCursor {
 public:
  /// If `mapped` is true, `text` must be a memory-mapped file, and the cursor
  /// releases pages that it has read; the system loads them again on demand.
  JsonCursor(
      std::string_view text,
      std::string source,
      std::string path,
      bool mapped = false);

  /// Returns the first byte of the next value.
  char peek();
  /// Calls `each(key)` for every member; `each` must read the value.
  template <typename Each>
  void object(Each each) {
    expect('{');
    for (bool first = true; !at_container_end('}', first); first = false) {
      std::string scratch;
      const std::string_view key = string(scratch);
      expect(':');
      each(key);
    }
  }
  /// Calls `each()` for every element; `each` must read the element.
  template <typename Each>
  void array(Each each) {
    expect('[');
    for (bool first = true; !at_container_end(']', first); first = false) {
      each();
    }
  }
  /// Reads a string. The result points into the text, or into `scratch` if the
  /// string has escape sequences.
  std::string_view string(std::string& scratch);
  std::int64_t integer();
  double number();
  /// Skips a value and returns its text; checks only brackets and strings.
  std::string_view skip();
  /// Returns the number of elements or members of the value that was last
  /// skipped.
  std::size_t skipped_elements() const { return skipped_elements_; }
  /// Checks that only whitespace follows.
  void end();

  std::size_t offset() const { return at_; }
  /// Moves to an earlier position, so that an error can be reported there.
  void seek(std::size_t offset) { at_ = offset; }
  void set_path(std::string path) { path_ = std::move(path); }
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& message) const;

 private:
  void skip_whitespace();
  void release_pages();
  void expect(char expected);
  /// Returns true if the container ends here. Otherwise reads the comma, except
  /// before the first element, and returns false.
  bool at_container_end(char bracket, bool first);
  void skip_string();
  std::string_view digits();
  void unescape(std::string& out);
  std::uint32_t hex4();

  std::string_view text_;
  std::string source_;
  std::string path_;
  bool mapped_;
  std::size_t at_ = 0;
  std::size_t released_ = 0;
  std::size_t skipped_elements_ = 0;
};

}  // namespace transformers::tokenizers
