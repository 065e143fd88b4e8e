// SPDX-License-Identifier: Apache-2.0
#include "launch/meeting.h"

#include <gtest/gtest.h>

#include "launch/failure_json.h"

namespace accelerate {
namespace {

MachineCard card(std::int64_t rank, const std::string& host, Json agreement) {
  return {rank, host, host + ":1", std::move(agreement)};
}

TEST(Meeting, NamesWhoIsMissing) {
  Meeting meeting(3);
  (void)meeting.add(card(0, "a", Json::object()));
  (void)meeting.add(card(2, "long-name", Json::object()));
  meeting.add_refusal("10.0.0.9:5", "wrong secret");

  EXPECT_FALSE(meeting.is_complete());
  EXPECT_EQ(
      meeting.missing_text("10.0.0.1:29500", 5),
      "1 of 3 machines did not come to 10.0.0.1:29500 within 5.0 s\n\n"
      "  machine  host       address      state\n"
      "  0        a          a:1          here\n"
      "  1        -          -            missing\n"
      "  2        long-name  long-name:1  here\n"
      "  -        -          10.0.0.9:5   refused: wrong secret");
}

TEST(Meeting, NamesAStrangerOnceForEachReason) {
  Meeting meeting(2);
  for (int port = 1; port < 100; ++port) {
    meeting.add_refusal("10.0.0.9:" + std::to_string(port), "no proof");
  }
  meeting.add_refusal("10.0.0.9:7", "wrong secret");

  EXPECT_EQ(
      meeting.missing_text("10.0.0.1:29500", 5),
      "2 of 2 machines did not come to 10.0.0.1:29500 within 5.0 s\n\n"
      "  machine  host  address     state\n"
      "  0        -     -           missing\n"
      "  1        -     -           missing\n"
      "  -        -     10.0.0.9:1  refused: no proof\n"
      "  -        -     10.0.0.9:7  refused: wrong secret");
}

TEST(Meeting, ShowsOnlyWhatDiffers) {
  Meeting meeting(2);
  (void)meeting.add(card(0, "a", Json::object({{"x", 1}, {"y", "no"}})));
  (void)meeting.add(card(1, "b", Json::object({{"x", 1}, {"y", "bf16"}})));

  EXPECT_TRUE(meeting.is_complete());
  EXPECT_EQ(
      meeting.difference_text(),
      "the machines disagree\n\n"
      "  setting  machine 0 (a)  machine 1 (b)\n"
      "  y        no             bf16");
}

TEST(Meeting, GivesRanksInTheOrderOfArrival) {
  Meeting meeting(2);

  EXPECT_EQ(meeting.add(card(-1, "a", Json::object())).rank, 0);
  EXPECT_EQ(meeting.add(card(-1, "b", Json::object())).rank, 1);
  EXPECT_EQ(
      meeting.add(card(-1, "c", Json::object())).error,
      "all 2 machines are here already");
}

TEST(Meeting, RefusesTwins) {
  Meeting meeting(3);
  (void)meeting.add(card(1, "a", Json::object()));

  EXPECT_EQ(
      meeting.add(card(1, "b", Json::object())).error,
      "machine_rank 1 is taken by a (a:1)");
  EXPECT_EQ(
      meeting.add(card(3, "b", Json::object())).error,
      "machine_rank 3 of 3 does not exist");
}

TEST(FailureJson, SurvivesTheWay) {
  Failure failure;
  failure.rank = 3;
  failure.signal = 9;
  failure.memory_kill = true;
  failure.last_lines = {"a", "b"};
  failure.lost_machine = "1 (b)";

  const Failure back = failure_from_json(failure_to_json(failure));

  EXPECT_EQ(failure_to_json(back), failure_to_json(failure));
}

}  // namespace
}  // namespace accelerate
