// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter_protocol.h"

#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace accelerate::jupyter {
namespace {

// The reading end of a pipe that holds `bytes`.
UniqueFd stream_of(const std::string& bytes) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const UniqueFd writer(ends[1]);
  EXPECT_TRUE(write_bytes(writer.get(), bytes));
  return UniqueFd(ends[0]);
}

TEST(InterpreterProtocol, RoundTrips) {
  const std::string text = "int a = 1;\nint b = 2;";
  const UniqueFd stream =
      stream_of(packet_bytes("cell", text) + packet_bytes("target 2", ""));

  const auto cell = read_packet(stream.get());
  const auto target = read_packet(stream.get());

  ASSERT_TRUE(cell && target);
  EXPECT_EQ(cell->kind, "cell");
  EXPECT_EQ(cell->text, text);
  EXPECT_EQ(target->kind, "target 2");
  EXPECT_EQ(target->text, "");
  EXPECT_FALSE(read_packet(stream.get()));
}

TEST(InterpreterProtocol, RefusesAMalformedLength) {
  for (const char* head :
       {"cell\n", "cell \n", "cell -1\n", "cell 3x\n", "cell 1073741825\n"}) {
    EXPECT_FALSE(read_packet(stream_of(std::string(head) + "abc").get()))
        << head;
  }
}

TEST(InterpreterProtocol, AllocatesOnlyWhatArrives) {
  const UniqueFd stream = stream_of("abc");
  std::string text;

  EXPECT_FALSE(detail::read_text(stream.get(), std::size_t{1} << 30, text));

  EXPECT_TRUE(text.starts_with("abc"));
  EXPECT_LE(text.capacity(), std::size_t{2} << 20);
}

}  // namespace
}  // namespace accelerate::jupyter
