// SPDX-License-Identifier: Apache-2.0
// Parses any bytes as CSV and as TSV: seeking to a record gives the same
// record, and records that were read can be written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "accelerate/error.h"
#include "base/text.h"
#include "datasets/csv_cells.h"
#include "datasets/csv_reader.h"
#include "datasets/csv_types.h"

namespace {

using transformers::datasets::CsvCell;
using transformers::datasets::CsvFormat;
using transformers::datasets::CsvReader;
using Record = std::vector<std::string>;

void expect(bool holds) {
  if (!holds) {
    std::abort();
  }
}

Record texts_of(const CsvReader& reader) {
  Record record;
  for (const CsvCell& cell : reader.cells()) {
    record.push_back(cell.text());
  }
  return record;
}

std::string in_quotes(const std::string& text) {
  return '"' + accelerate::replace_all(text, "\"", "\"\"") + '"';
}

void check_types(const Record& record) {
  for (const std::string& text : record) {
    transformers::datasets::TypeGuess guess("column", true);
    guess.add(text, 0);
    if (!guess.end_block([&](std::size_t) { return text; })) {
      guess.end_file();
      expect(transformers::datasets::parse_cell(text, guess.result(), true)
                 .has_value());
    }
  }
}

void check(const std::string& text, const CsvFormat& format) {
  CsvReader reader(text, format, "input");
  CsvReader again(text, format, "input");
  std::string written;
  std::vector<Record> records;
  while (reader.next()) {
    records.push_back(texts_of(reader));
    check_types(records.back());
    again.seek(reader.record_offset());
    expect(again.next() && texts_of(again) == records.back());
    for (std::size_t i = 0; i < records.back().size(); ++i) {
      written += (i > 0 ? std::string(1, format.delimiter) : "") +
                 in_quotes(records.back()[i]);
    }
    written += "\r\n";
  }
  if (!format.quoting) {
    return;
  }
  CsvReader second(written, format, "written");
  for (const Record& record : records) {
    expect(second.next() && texts_of(second) == record);
  }
  expect(!second.next());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const CsvFormat& format :
       {CsvFormat{',', true}, CsvFormat{'\t', true}, CsvFormat{'\t', false}}) {
    try {
      check(text, format);
    } catch (const accelerate::FormatError&) {
      // The only allowed error for a bad file.
    }
  }
  return 0;
}
