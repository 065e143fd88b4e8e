// SPDX-License-Identifier: Apache-2.0
// Reads JSON text from left to right without building values: a vocabulary of
// 100 000 entries goes straight into the tables that use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace transformers::tokenizers {

/// Every function throws `FormatError` as `source:line:column: path: what`.
class JsonCursor {
 public:
  /// With `mapped`, the text is a file's pages, and those that have been read
  /// are given back: the system fetches them again where they are needed.
  JsonCursor(
      std::string_view text,
      std::string source,
      std::string path,
      bool mapped = false);

  /// The first byte of the next value.
  char peek();
  /// Calls `each(key)` at every member's value, which `each` must read.
  template <typename Each>
  void object(Each each) {
    expect('{');
    for (bool first = true; !closed('}', first); first = false) {
      std::string scratch;
      const std::string_view key = string(scratch);
      expect(':');
      each(key);
    }
  }
  /// Calls `each()` at every element, which `each` must read.
  template <typename Each>
  void array(Each each) {
    expect('[');
    for (bool first = true; !closed(']', first); first = false) {
      each();
    }
  }
  /// Reads a string. The result points into the text, or into `scratch` when
  /// the string had escapes.
  std::string_view string(std::string& scratch);
  std::int64_t integer();
  double number();
  /// Passes over a value and returns its text; only brackets and strings are
  /// checked.
  std::string_view skip();
  /// How many elements or members the value had that `skip` passed last.
  std::size_t skipped_elements() const { return skipped_; }
  /// Nothing but blanks may follow.
  void end();

  std::size_t offset() const { return at_; }
  /// Goes where the cursor was before, for an error found late.
  void go_back(std::size_t offset) { at_ = offset; }
  void set_path(std::string path) { path_ = std::move(path); }
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void skip_blanks();
  void give_back();
  void expect(char wanted);
  /// Whether the container ends here; passes the comma otherwise.
  bool closed(char bracket, bool first);
  void skip_string();
  std::string_view digits();
  void unescape(std::string& out);
  std::uint32_t hex4();

  std::string_view text_;
  std::string source_;
  std::string path_;
  bool mapped_;
  std::size_t at_ = 0;
  std::size_t given_back_ = 0;
  std::size_t skipped_ = 0;
};

}  // namespace transformers::tokenizers
