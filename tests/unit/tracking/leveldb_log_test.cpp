// SPDX-License-Identifier: Apache-2.0
#include "tracking/leveldb_log.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tracking/protobuf.h"
#include "tracking/wandb_records.h"

namespace accelerate {
namespace {

// Written by wandb 0.31.0: the first record of the run `abc12345`.
constexpr char kWandbGolden[] =
    "3a572642e1be00d01ef8af4d00010801c20c0a0a086162633132333435aa013b0a390a2f30"
    "2e"
    "33312e302b3135663863626335383164316335636663366533316636386234386264643133"
    "63"
    "656332646432631206302e37302e30";

std::string bytes_of_digits(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TEST(LevelDbLog, FramesRecordsAsWandbDoes) {
  const std::string golden = bytes_of_digits(kWandbGolden);
  LogRecordReader reader(golden, wandb_file_header().size());

  const auto record = reader.next();

  ASSERT_TRUE(record);
  EXPECT_EQ(
      wandb_file_header() +
          framed_log_record(*record, wandb_file_header().size()),
      golden);
  std::string_view rest = *record;
  EXPECT_EQ(read_proto_field(rest)->integer, 1U);
  EXPECT_FALSE(reader.next());
}

TEST(LevelDbLog, ReadsWhatItWroteAroundTheEndsOfBlocks) {
  // The room that is left in the first block when the record begins.
  for (std::uint64_t room = 0; room < 20; ++room) {
    for (const std::size_t size : {0U, 1U, 7U, 13U, 32761U, 32762U, 100000U}) {
      const std::uint64_t begin = 32768 - room;
      const std::string record(size, 'x');
      std::string file(begin, 'y');

      file += framed_log_record(record, begin);
      file += framed_log_record("next", file.size());

      LogRecordReader reader(file, begin);
      EXPECT_EQ(reader.next(), record) << room << " " << size;
      EXPECT_EQ(reader.next(), "next") << room << " " << size;
      EXPECT_EQ(reader.position(), file.size());
    }
  }
}

TEST(LevelDbLog, WritesAnEmptyChunkWhereOnlyAHeaderFits) {
  const std::string framed = framed_log_record("abc", 32768 - 7);

  ASSERT_EQ(framed.size(), 7U + 7U + 3U);
  EXPECT_EQ(framed.substr(4, 3), std::string("\0\0\2", 3));
  EXPECT_EQ(framed.substr(7 + 4, 6), std::string("\3\0\4abc", 6));
}

TEST(LevelDbLog, RefusesChunksInTheWrongOrder) {
  const std::string record(70000, 'x');
  const std::string file = framed_log_record(record, 0);
  const std::string first = file.substr(0, 32768);
  const std::string middle = file.substr(32768, 32768);
  const std::string last = file.substr(65536);

  for (const std::string& wrong :
       {middle + last, first + framed_log_record("whole", first.size())}) {
    LogRecordReader reader(wrong, 0);
    EXPECT_FALSE(reader.next());
    EXPECT_EQ(reader.position(), 0U);
  }
}

TEST(LevelDbLog, StopsAtAnyDamagedByteAndAtAnyEnd) {
  const std::string record(40000, 'x');
  const std::string file = framed_log_record(record, 0);
  for (const std::size_t at :
       {0U, 4U, 6U, 7U, 32767U, 32768U, 32774U, 40005U}) {
    std::string damaged = file;
    damaged.at(at) = static_cast<char>(damaged[at] ^ 1);
    LogRecordReader reader(damaged, 0);
    EXPECT_FALSE(reader.next()) << "byte " << at;
    EXPECT_EQ(reader.position(), 0U);
  }
  for (const std::size_t size : {0U, 6U, 7U, 32768U, 32774U, 40013U}) {
    LogRecordReader reader(std::string_view(file).substr(0, size), 0);
    EXPECT_FALSE(reader.next()) << size << " bytes";
  }
}

}  // namespace
}  // namespace accelerate
