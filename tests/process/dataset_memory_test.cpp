// SPDX-License-Identifier: Apache-2.0
// Files larger than memory: rows are read from mapped pages of the file, which
// the system can reclaim, and not from allocated memory.
#include <algorithm>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "support/temporary_directory.h"
#include "transformers/dataset.h"

namespace transformers {
namespace {

constexpr std::int64_t kRows = 60'000;
constexpr std::size_t kText = 1000;

// Private anonymous memory of this process, in MiB.
double anonymous_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") {
      double kib = 0;
      status >> kib;
      return kib / 1024;
    }
  }
  ADD_FAILURE() << "no RssAnon";
  return 0;
}

std::string text_of(std::int64_t row) {
  return std::string(kText, static_cast<char>('a' + row % 26));
}

class LargeFile : public testing::TestWithParam<const char*> {
 protected:
  // 60 MB in total.
  std::string write() const {
    const auto path = folder_.path() / "large";
    std::ofstream out(path, std::ios::binary);
    const std::string format = GetParam();
    if (format == "csv") {
      out << "id,text\n";
    }
    for (std::int64_t row = 0; row < kRows; ++row) {
      if (format == "csv") {
        out << row << ",\"" << text_of(row) << "\"\n";
      } else {
        out << "{\"id\": " << row << ", \"text\": \"" << text_of(row)
            << "\"}\n";
      }
    }
    return path.string();
  }

  accelerate::TemporaryDirectory folder_;
};

TEST_P(LargeFile, NeedsNoMemoryForItsRows) {
  const std::string path = write();
  const double before = anonymous_memory();

  const Dataset data = load_dataset(GetParam(), path);
  const Dataset mapped = data.map(
      [](const Row& row) {
        return Row{{"twice", row.text("text") + row.text("text")}};
      },
      {.num_threads = 2, .cache_dir = folder_.path() / "cache"});

  double most = anonymous_memory();
  for (std::int64_t i = 0; i < kRows; i += 7) {
    const Row row = mapped.get(i);
    ASSERT_EQ(row.integer("id"), i);
    ASSERT_TRUE(row.text("twice") == text_of(i) + text_of(i)) << i;
    if (i % 7000 == 0) {
      most = std::max(most, anonymous_memory());
    }
  }
  EXPECT_EQ(data.size(), kRows);
  EXPECT_LT(most - before, 15) << "MiB, for 60 and 180 MB of files";
}

INSTANTIATE_TEST_SUITE_P(
    Formats, LargeFile, testing::Values("csv", "json"), [](const auto& test) {
      return std::string(test.param);
    });

}  // namespace
}  // namespace transformers
