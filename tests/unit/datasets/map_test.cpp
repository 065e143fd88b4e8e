// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "datasets/row_file.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "transformers/dataset.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::message_of;
using accelerate::TemporaryDirectory;

Dataset letters(std::int64_t count) {
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(
        {{"i", i},
         {"text", std::string(static_cast<std::size_t>(i % 5), 'x')}});
  }
  return Dataset::from_rows(rows);
}

Row lengths(const Row& row) {
  const auto size = static_cast<std::int64_t>(row.text("text").size());
  return {
      {"ids",
       std::vector<std::int64_t>(
           static_cast<std::size_t>(size), row.integer("i"))},
      {"i", static_cast<double>(size)}};
}

TEST(Map, ReplacesAndAddsColumns) {
  const TemporaryDirectory folder;

  const auto data = letters(3).map(lengths, {.cache_dir = folder.path()});

  EXPECT_EQ(
      data.columns(),
      (std::vector<Column>{
          {"i", ColumnType::real},
          {"text", ColumnType::string},
          {"ids", ColumnType::integers}}));
  EXPECT_EQ(
      data.get(2),
      (
          Row{{"i", 2.0},
              {"text", "xx"},
              {"ids", std::vector<std::int64_t>{2, 2}}}));
}

TEST(Map, KeepsTheOrderWithAnyNumberOfThreads) {
  const TemporaryDirectory folder;
  const auto data = letters(5000);

  const auto single_thread = data.map(lengths, {.cache_dir = folder.path()});
  const auto four_threads =
      data.map(lengths, {.num_threads = 4, .cache_dir = folder.path()});

  ASSERT_EQ(four_threads.size(), 5000);
  for (std::int64_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(single_thread.get(i), four_threads.get(i)) << i;
  }
  EXPECT_EQ(single_thread.fingerprint(), four_threads.fingerprint());
}

TEST(Map, KeepsEveryKindOfValue) {
  const TemporaryDirectory folder;
  const Row all = {
      {"none", {}},
      {"yes", true},
      {"integer", INT64_MIN},
      {"real", -0.125},
      {"text", std::string("a\0b", 3)},
      {"integers", std::vector<std::int64_t>{INT64_MAX, -1}},
      {"reals", std::vector<double>{1e300}},
      {"strings", std::vector<std::string>{"", "ü"}}};

  const auto data = letters(1).map(
      [&](const Row&) { return all; },
      {.remove_columns = {"i", "text"}, .cache_dir = folder.path()});

  EXPECT_EQ(data.get(0).size(), all.size());
  for (const auto& [name, value] : all) {
    EXPECT_EQ(data.get(0).at(name), value) << name;
  }
}

class MapCache : public testing::Test {
 protected:
  Dataset run(const Dataset& data, const std::string& fingerprint) {
    return data.map(
        [&](const Row& row) {
          ++calls;
          return lengths(row);
        },
        {.fingerprint = fingerprint, .cache_dir = folder.path()});
  }

  TemporaryDirectory folder;
  int calls = 0;
};

TEST_F(MapCache, IsFoundByContentAndFingerprint) {
  run(letters(4), "a");
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(run(letters(4), "a").get(3).integers("ids").size(), 3U);
  EXPECT_EQ(calls, 4);

  run(letters(4), "b");
  EXPECT_EQ(calls, 8);
  run(letters(5), "a");
  EXPECT_EQ(calls, 13);
}

TEST_F(MapCache, IsFoundForEqualFilesAtOtherPaths) {
  const auto csv = [&](const std::string& name) {
    return load_dataset("csv", folder.write(name, "i,text\n1,x\n"));
  };
  run(csv("one/a.csv"), "a");

  run(csv("two/b.csv"), "a");

  EXPECT_EQ(calls, 1);
}

TEST_F(MapCache, IsWrittenAgainWhenDamaged) {
  run(letters(4), "a");
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".rows") {
      std::filesystem::resize_file(entry.path(), 100);
    }
  }

  run(letters(4), "a");

  EXPECT_EQ(calls, 8);
}

TEST_F(MapCache, LeavesNoFileWithoutAFingerprint) {
  {
    const auto data = run(letters(4), "");
    EXPECT_EQ(data.size(), 4);
  }

  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(MapCache, LeavesNoFileAfterAnError) {
  EXPECT_THROW(
      static_cast<void>(letters(600).map(
          [](const Row& row) -> Row {
            if (row.integer("i") == 300) {
              throw std::runtime_error("stop");
            }
            return {};
          },
          {.num_threads = 3, .fingerprint = "x", .cache_dir = folder.path()})),
      std::runtime_error);

  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().extension(), ".lock");
  }
}

std::filesystem::path folder_that_cannot_exist(
    const TemporaryDirectory& folder) {
  return folder.write("file", "") / "cache";
}

TEST(Map, KeepsASmallResultInMemory) {
  const TemporaryDirectory folder;
  const auto cache = folder.path() / "cache";

  const auto data = letters(10).map(lengths, {.cache_dir = cache});

  EXPECT_EQ(data.get(9).integers("ids").size(), 4U);
  EXPECT_FALSE(std::filesystem::exists(cache));
}

TEST(Map, NeedsNoWritableFolder) {
  const TemporaryDirectory folder;
  const auto cache = folder_that_cannot_exist(folder);

  const auto temporary = letters(10).map(lengths, {.cache_dir = cache});
  const auto cached =
      letters(10).map(lengths, {.fingerprint = "x", .cache_dir = cache});

  EXPECT_EQ(temporary.get(9), cached.get(9));
  EXPECT_EQ(temporary.fingerprint(), cached.fingerprint());
}

/// A home folder that this process can only read. If the test runs as root, the
/// process changes to another user.
class ReadOnlyHome : public testing::Test {
 protected:
  ReadOnlyHome() {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
    for (const char* name :
         {"HF_HOME", "HF_DATASETS_CACHE", "XDG_CACHE_HOME"}) {
      ::unsetenv(name);
    }
    ::setenv("HOME", folder_.path().c_str(), 1);
    EXPECT_EQ(was_root_ ? ::seteuid(65534) : 0, 0);
  }
  ~ReadOnlyHome() override {
    EXPECT_EQ(was_root_ ? ::seteuid(0) : 0, 0);
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  }

  const TemporaryDirectory folder_;
  const bool was_root_ = ::geteuid() == 0;
};

TEST_F(ReadOnlyHome, IsEnoughForMap) {
  const auto data = letters(10).map(lengths, {.fingerprint = "x"});

  EXPECT_EQ(data.get(9).integers("ids").size(), 4U);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

class Umask : public testing::TestWithParam<mode_t> {
 protected:
  ~Umask() override { ::umask(before_); }

 private:
  const mode_t before_ = ::umask(GetParam());
};

TEST_P(Umask, AppliesToCachedResults) {
  const TemporaryDirectory folder;
  const auto cache = folder.path() / "cache";

  static_cast<void>(
      letters(3).map(lengths, {.fingerprint = "x", .cache_dir = cache}));

  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    if (entry.path().extension() == ".rows") {
      ++files;
      EXPECT_EQ(
          static_cast<mode_t>(entry.status().permissions()),
          0666 & ~GetParam());
    }
  }
  EXPECT_EQ(files, 1);
  EXPECT_EQ(
      static_cast<mode_t>(std::filesystem::status(cache).permissions()),
      0777 & ~GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Masks, Umask, testing::Values(077, 027, 022, 002), [](const auto& test) {
      return "Mask" + std::to_string(test.param);
    });

TEST(Map, KeepsTheColumnsOfAnEmptyDataset) {
  const TemporaryDirectory folder;
  const auto empty = letters(3).select({});

  const auto data =
      empty.map(lengths, {.remove_columns = {"i"}, .cache_dir = folder.path()});

  EXPECT_EQ(data.size(), 0);
  EXPECT_EQ(data.column_names(), (std::vector<std::string>{"text"}));
}

TEST(Map, ReportsTheRowWithDifferentColumns) {
  const TemporaryDirectory folder;

  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        static_cast<void>(letters(9).map(
            [](const Row& row) {
              return row.integer("i") < 5 ? Row{{"a", 1}} : Row{{"b", 1}};
            },
            {.cache_dir = folder.path()}));
      }),
      "`map`: row 5 has different columns from earlier rows");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        static_cast<void>(letters(9).map(
            [](const Row& row) {
              return row.integer("i") < 5 ? Row{{"a", 1}} : Row{{"a", "x"}};
            },
            {.cache_dir = folder.path()}));
      }),
      "`map`: row 5: column `a` is a string, but in earlier rows it is a "
      "64-bit integer");
}

datasets::TablePointer write_rows(datasets::RowFileWriter& writer, int count) {
  std::string bytes;
  datasets::append_value(bytes, Value(std::string(100, 'x')));
  for (int i = 0; i < count; ++i) {
    writer.append(bytes, {bytes.size()});
  }
  return writer.finish({{"text", ColumnType::string}});
}

std::ptrdiff_t entries_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator entries(folder);
  return std::distance(begin(entries), end(entries));
}

TEST(RowFile, IsWrittenWhenTheRowsExceedTheMemory) {
  const TemporaryDirectory folder;
  datasets::RowFileWriter small(
      folder.path() / "small", std::nullopt, {.memory_bytes = 1000});
  datasets::RowFileWriter large(
      folder.path() / "large", std::nullopt, {.memory_bytes = 1000});

  const auto few = write_rows(small, 3);
  const auto many = write_rows(large, 300);

  EXPECT_EQ(few->rows(), 3);
  EXPECT_EQ(many->rows(), 300);
  EXPECT_EQ(many->read(299), few->read(2));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "small"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "large"));
  // The file has no name, so that nothing is left when the process is killed.
  EXPECT_EQ(entries_in(folder.path() / "large"), 0);
}

TEST(RowFile, StaysInMemoryIfTheFolderCannotBeWritten) {
  const TemporaryDirectory folder;
  const auto cache = folder_that_cannot_exist(folder);
  datasets::RowFileWriter writer(
      cache, cache / "x.rows", {.memory_bytes = 1000});

  const auto rows = write_rows(writer, 300);

  EXPECT_EQ(rows->rows(), 300);
  EXPECT_EQ(std::get<std::string>(rows->read(299)[0]).size(), 100U);
}

TEST(RowFile, ReportsAFolderThatCannotBeWrittenIfTheMemoryIsFull) {
  const TemporaryDirectory folder;
  const auto cache = folder_that_cannot_exist(folder);
  datasets::RowFileWriter writer(
      cache, std::nullopt, {.memory_bytes = 1000, .available = [] {
                              return 50'000;
                            }});

  const auto message = message_of<accelerate::IoError>(
      [&] { static_cast<void>(write_rows(writer, 3000)); });

  EXPECT_TRUE(message.starts_with(
      "the result of `map` does not fit in memory, and it cannot be written to "
      "a file: cannot create " +
      cache.string() + ": Not a directory"))
      << message;
}

// The length of the columns leaves less than 8 bytes in front of the columns.
TEST(RowFile, RejectsColumnsThatBeginBeforeTheRows) {
  const TemporaryDirectory folder;
  const std::uint64_t rows = 0;
  for (std::uint64_t begin = 0; begin < 16; ++begin) {
    const std::uint64_t json = 32 - begin;
    std::string text = "accrows1" + std::string(24, ' ');
    text.append(reinterpret_cast<const char*>(&json), 8);
    text.append(reinterpret_cast<const char*>(&rows), 8);
    const auto path = folder.write("f", text + "accrows1");

    EXPECT_EQ(
        message_of<accelerate::FormatError>(
            [&] { datasets::open_row_file(path); }),
        path.string() + ": byte 32: more rows than the file can hold")
        << begin;
  }
}

TEST(RowFile, RejectsADifferentFormat) {
  const TemporaryDirectory folder;
  const auto path = folder.write("f", "accrows1 and then something else");

  EXPECT_EQ(
      message_of<accelerate::FormatError>(
          [&] { datasets::open_row_file(path); }),
      path.string() + ": byte 0: not a row file from `Dataset::map`");
}

TEST(RowFile, RejectsTruncatedFilesAndNeverReadsPastTheirEnd) {
  const TemporaryDirectory folder;
  static_cast<void>(letters(3).map(
      lengths, {.fingerprint = "x", .cache_dir = folder.path()}));
  std::filesystem::path name;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    name = entry.path().extension() == ".rows" ? entry.path() : name;
  }
  const std::string content = folder.read(name.filename());
  ASSERT_GT(content.size(), 100U);

  for (std::size_t size = 0; size < content.size(); ++size) {
    const auto truncated = folder.write("truncated", content.substr(0, size));
    EXPECT_THROW(datasets::open_row_file(truncated), accelerate::Error) << size;
  }
  // A changed byte may cause an error or wrong values, but never a crash.
  for (std::size_t at = 0; at < content.size(); ++at) {
    std::string changed = content;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    const auto path = folder.write("changed", changed);
    try {
      const auto table = datasets::open_row_file(path);
      for (std::int64_t row = 0; row < table->rows(); ++row) {
        static_cast<void>(table->read(row));
      }
    } catch (const accelerate::Error&) {
    }
  }
}

}  // namespace
}  // namespace transformers
