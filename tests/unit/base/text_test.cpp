// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/utf8.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

TEST(Text, NearestNameForgivesOnlyTypos) {
  const std::vector<std::string> names = {"num_processes", "num_machines"};

  EXPECT_EQ(nearest_name("num-proceses", names), "num_processes");
  EXPECT_EQ(nearest_name("nmu_machines", names), "num_machines");
  EXPECT_EQ(nearest_name("verbose", names), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(1000, 'x'), names), std::nullopt);
}

TEST(Text, WrapsAtSpaces) {
  EXPECT_EQ(wrap("one two three four", 10, 2), "one two\n  three\n  four");
}

TEST(Text, QuotesForTheShell) {
  EXPECT_EQ(shell_quote("./train"), "./train");
  EXPECT_EQ(shell_quote("it's 1"), "'it'\\''s 1'");
  EXPECT_EQ(shell_quote(""), "''");
}

TEST(Text, FormatsSizesAndTimes) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(413.18 * 1024 * 1024), "413.18 MiB");
  EXPECT_EQ(format_seconds(0.44), "0.4 s");
  EXPECT_EQ(format_seconds(41.2), "41 s");
  EXPECT_EQ(format_seconds(200), "3 min 20 s");
}

TEST(Text, ShowsControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31m\n"), "a\\x1b[31m\\x0a");
  // U+009B begins an escape sequence, too.
  EXPECT_EQ(printable("\xc2\x9b\xc2\xa0"), "\\xc2\\x9b\xc2\xa0");
  // The result is always UTF-8.
  EXPECT_EQ(
      printable("\xe4\xb8\xad\xff\xe4\xb8"), "\xe4\xb8\xad\\xff\\xe4\\xb8");
}

// Some terminals obey the 8-bit control characters, too.
TEST(Text, ShowsControlCharactersOf8Bits) {
  EXPECT_EQ(printable("a\xc2\x9b\x33\x31mb"), "a\\xc2\\x9b31mb");
  EXPECT_EQ(printable("a\x9b\x33\x31mb"), "a\\x9b31mb");
  EXPECT_EQ(printable("caf\xc3"), "caf\\xc3");
  EXPECT_EQ(printable("caf\u00e9 \u4e16\t\u00a0"), "caf\u00e9 \u4e16\t\u00a0");
}

TEST(Text, EscapesEachLine) {
  EXPECT_EQ(printable_lines("a\x1b[2J\nb\r\n\nc"), "a\\x1b[2J\nb\\x0d\n\nc");
  EXPECT_EQ(printable_lines("\n"), "\n");
  EXPECT_EQ(printable_lines(""), "");
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8("é€😀"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("a\xc0\x80"), 1U);         // Overlong.
  EXPECT_EQ(find_invalid_utf8("ab\xed\xa0\x80"), 2U);    // Surrogate.
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0U);  // Too large.
  EXPECT_EQ(find_invalid_utf8("abc\xe2\x82"), 3U);       // Cut off.
}

TEST(Files, ReadsWrittenFilesAndRejectsLargeOnes) {
  const std::string path = fresh_folder() / "files_test/deep/a.txt";
  write_file(path, "hello", 0600);

  EXPECT_EQ(read_file(path, 5), "hello");
  try {
    (void)read_file(path, 4);
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_EQ(error.what(), path + " is larger than the 4 bytes allowed");
  }
}

TEST(Files, ErrorsNameThePathAndTheReason) {
  try {
    (void)read_file("/nowhere/a.txt", 10);
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_STREQ(
        error.what(), "cannot read /nowhere/a.txt: No such file or directory");
  }
}

}  // namespace
}  // namespace accelerate
