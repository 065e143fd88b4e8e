// SPDX-License-Identifier: Apache-2.0
// A table with one row per line of text.
#include <utility>

#include "datasets/table.h"
#include "datasets/text_files.h"

namespace transformers::datasets {
namespace {

/// Returns the line that begins at `offset`, without the line break.
std::string_view line_at(std::string_view text, std::size_t offset) {
  std::size_t end = offset;
  while (end < text.size() && text[end] != '\n' && text[end] != '\r') {
    ++end;
  }
  return text.substr(offset, end - offset);
}

class TextTable : public Table {
 public:
  explicit TextTable(const Paths& paths) : files_(paths) {
    for (std::size_t file = 0; file < files_.count(); ++file) {
      const std::string_view text = files_.text(file);
      std::size_t offset = 0;
      while (offset < text.size()) {
        files_.add_row(file, offset);
        offset += line_at(text, offset).size();
        offset += text.substr(offset).starts_with("\r\n") ? 2 : 1;
      }
    }
  }

  std::int64_t rows() const override { return files_.rows(); }
  const std::vector<Column>& columns() const override { return columns_; }
  std::vector<Value> read(std::int64_t row) const override {
    const auto location = files_.location(row);
    return {std::string(line_at(files_.text(location.file), location.offset))};
  }
  std::string fingerprint() const override {
    return files_.fingerprint("text 2");
  }

 private:
  TextFiles files_;
  std::vector<Column> columns_ = {{"text", ColumnType::string}};
};

}  // namespace

TablePointer read_text_lines(const Paths& paths) {
  return std::make_shared<TextTable>(paths);
}

}  // namespace transformers::datasets
