// SPDX-License-Identifier: Apache-2.0
#include "launch/output.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <pty.h>

#include "base/files.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

struct Ends {
  UniqueFd read;
  UniqueFd write;
};

Ends make_pipe() {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Ranks that print to their stderr, and the merged output.
class OutputTest : public testing::Test {
 protected:
  void start(int out, int err, std::int64_t ranks) {
    OutputOptions options;
    options.out = out;
    options.err = err;
    options.num_ranks = ranks;
    output_ = std::make_unique<Output>(options);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Ends standard = make_pipe();
      Ends error = make_pipe();
      output_->add(rank, std::move(standard.read), std::move(error.read));
      out_.push_back(std::move(standard.write));
      err_.push_back(std::move(error.write));
    }
  }

  void start_with_files(std::int64_t ranks) {
    file_.reset(::open(path_.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600));
    start(file_.get(), file_.get(), ranks);
  }

  // Prints text as `rank` and waits until it has been read.
  void print(std::size_t rank, const std::string& text) {
    EXPECT_GT(::write(err_[rank].get(), text.data(), text.size()), 0);
    output_->flush();
  }

  std::string written() {
    output_->drain();
    output_.reset();
    return read_file(path_, std::size_t{16} << 20);
  }

  const std::filesystem::path path_ = fresh_folder() / "output";
  UniqueFd file_;
  std::unique_ptr<Output> output_;
  std::vector<UniqueFd> out_;
  std::vector<UniqueFd> err_;
};

TEST_F(OutputTest, CopiesOneRankUnchanged) {
  start_with_files(1);

  print(0, "a\r\x1b[1m");
  print(0, std::string("b\0c", 3));

  EXPECT_EQ(written(), std::string("a\r\x1b[1mb\0c", 9));
}

TEST_F(OutputTest, AddsPrefixesWhenASecondRankPrints) {
  start_with_files(2);

  print(0, "one\ntw");
  print(1, "three\n");
  print(0, "o\n");

  EXPECT_EQ(written(), "one\n[1] three\n[0] two\n");
}

// The line is longer than a pipe's buffer and arrives in chunks, with output of
// another rank in between.
TEST_F(OutputTest, DoesNotSplitLongLines) {
  start_with_files(2);
  const std::string first(200'000, 'a');
  const std::string second(300'000, 'b');

  print(0, first);
  print(1, "x");
  print(0, second + "\nnext\n");
  print(1, "\n");

  EXPECT_EQ(written(), "[0] " + first + second + "\n[0] next\n[1] x\n");
}

TEST_F(OutputTest, SplitsLinesAboveTheLimit) {
  start_with_files(2);

  print(1, "x\n");
  print(0, std::string(kMaxOutputLine + 200'000, 'a'));

  const std::string text = written();
  EXPECT_GT(text.size(), kMaxOutputLine + 200'000);
  EXPECT_EQ(text.substr(0, 7), "x\n[0] a");
  const auto end = text.find('\n', 2);
  EXPECT_GT(end, kMaxOutputLine);
  EXPECT_EQ(text.substr(end + 1, 5), "[0] a");
}

TEST_F(OutputTest, PrintsUnfinishedLinesAtTheEnd) {
  start_with_files(2);

  print(0, "no end");
  print(1, "nor here");

  EXPECT_EQ(written(), "[0] no end\n[1] nor here\n");
}

TEST_F(OutputTest, PrintsAnnouncementsOnTheirOwnLine) {
  start_with_files(1);

  print(0, "half");
  output_->announce("note");
  output_->flush();
  print(0, "half\n");

  EXPECT_EQ(written(), "half\nnote\nhalf\n");
}

// An announcement may contain text from another machine. The output of a worker
// is not escaped, because the user controls it.
TEST_F(OutputTest, EscapesAnnouncementsButNotTheOutputOfWorkers) {
  start_with_files(2);

  print(0, "\x1b[32mgreen\x1b[0m\n");
  output_->announce("rank 0:\n  \x1b]0;title\x07 status");
  output_->flush();
  print(1, "\x1b[31mred\x1b[0m\n");

  EXPECT_EQ(
      written(),
      "\x1b[32mgreen\x1b[0m\nrank 0:\n  \\x1b]0;title\\x07 status\n[1] "
      "\x1b[31mred\x1b[0m\n");
}

TEST_F(OutputTest, KeepsTheLastLines) {
  start_with_files(2);
  for (int i = 0; i < 100; ++i) {
    print(1, "line " + std::to_string(i) + "\n");
  }
  print(1, "10%\r20%\r30%");

  const auto lines = output_->tail(1).err;

  EXPECT_EQ(lines.size(), 21U);
  EXPECT_EQ(lines.front(), "line 80");
  EXPECT_EQ(lines.back(), "30%");
  EXPECT_TRUE(output_->tail(0).err.empty());
}

TEST_F(OutputTest, KeepsAProgressBarAtTheBottomOfATerminal) {
  int controller = -1;
  int terminal = -1;
  termios mode{};
  ::cfmakeraw(&mode);
  ASSERT_EQ(::openpty(&controller, &terminal, nullptr, &mode, nullptr), 0);
  start(terminal, terminal, 2);

  print(0, "\r10%");
  print(1, "hello\n");
  print(0, "\r20%");
  print(0, "\r100%\n");
  output_->drain();
  output_.reset();
  ::close(terminal);
  std::string shown;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::read(controller, buffer, sizeof(buffer))) > 0) {
    shown.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(controller);

  // "\r\x1b[K" clears the bar. The line and the bar follow.
  EXPECT_EQ(
      shown,
      "\r10%\r\x1b[K\r\x1b[K[0] 10%\r\x1b[K[1] hello\n[0] 10%\r\x1b[K[0] 20%"
      "\r\x1b[K[0] 100%\n");
}

}  // namespace
}  // namespace accelerate
