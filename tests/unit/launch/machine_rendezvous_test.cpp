// SPDX-License-Identifier: Apache-2.0
#include "launch/machine_rendezvous.h"

#include <gtest/gtest.h>

#include "launch/failure_json.h"

namespace accelerate {
namespace {

MachineInfo machine(
    std::int64_t rank, const std::string& hostname, Json agreement) {
  return {rank, hostname, hostname + ":1", "", std::move(agreement)};
}

TEST(MachineRendezvous, ListsMissingMachines) {
  MachineRendezvous rendezvous(3);
  (void)rendezvous.add(machine(0, "a", Json::object()));
  (void)rendezvous.add(machine(2, "long-name", Json::object()));
  rendezvous.add_refusal("10.0.0.9:5", "wrong secret");

  EXPECT_FALSE(rendezvous.is_complete());
  EXPECT_EQ(
      rendezvous.missing_text("10.0.0.1:29500", 5),
      "1 of 3 machines did not join at 10.0.0.1:29500 within 5.0 s\n\n"
      "  machine  hostname   address      state\n"
      "  0        a          a:1          joined\n"
      "  1        -          -            missing\n"
      "  2        long-name  long-name:1  joined\n"
      "  -        -          10.0.0.9:5   refused: wrong secret");
}

TEST(MachineRendezvous, NamesTheStepOfAStranger) {
  const std::string ours = "step 0 of Slurm job 7";
  MachineInfo info = machine(1, "b", Json::object());
  info.job = "step 1 of Slurm job 7";

  EXPECT_EQ(
      MachineRendezvous(2, ours).stranger_text(info),
      "this is machine 0 of step 0 of Slurm job 7, but b belongs to step 1 of "
      "Slurm job 7");
  EXPECT_EQ(
      MachineRendezvous(2).stranger_text(info),
      "this is machine 0 of a job without Slurm, but b belongs to step 1 of "
      "Slurm job 7");
  info.job = ours;
  EXPECT_EQ(
      MachineRendezvous(2, ours).stranger_text(
          MachineInfo::from_json(info.to_json())),
      "");
}

TEST(MachineRendezvous, ListsARefusedAddressOncePerReason) {
  MachineRendezvous rendezvous(2);
  for (int port = 1; port < 100; ++port) {
    rendezvous.add_refusal("10.0.0.9:" + std::to_string(port), "no secret");
  }
  rendezvous.add_refusal("10.0.0.9:7", "wrong secret");

  EXPECT_EQ(
      rendezvous.missing_text("10.0.0.1:29500", 5),
      "2 of 2 machines did not join at 10.0.0.1:29500 within 5.0 s\n\n"
      "  machine  hostname  address     state\n"
      "  0        -         -           missing\n"
      "  1        -         -           missing\n"
      "  -        -         10.0.0.9:1  refused: no secret\n"
      "  -        -         10.0.0.9:7  refused: wrong secret");
}

TEST(MachineRendezvous, HasNoDifferencesBeforeAMachineJoins) {
  EXPECT_EQ(MachineRendezvous(2).difference_text(), "");
}

TEST(MachineRendezvous, ShowsOnlyWhatDiffers) {
  MachineRendezvous rendezvous(2);
  (void)rendezvous.add(machine(0, "a", Json::object({{"x", 1}, {"y", "no"}})));
  (void)rendezvous.add(
      machine(1, "b", Json::object({{"x", 1}, {"y", "bf16"}})));

  EXPECT_TRUE(rendezvous.is_complete());
  EXPECT_EQ(
      rendezvous.difference_text(),
      "the machines have different settings\n\n"
      "  setting  machine 0 (a)  machine 1 (b)\n"
      "  y        no             bf16");
}

TEST(MachineRendezvous, AssignsRanksInTheOrderOfJoining) {
  MachineRendezvous rendezvous(2);

  EXPECT_EQ(rendezvous.add(machine(-1, "a", Json::object())).rank, 0);
  EXPECT_EQ(rendezvous.add(machine(-1, "b", Json::object())).rank, 1);
  EXPECT_EQ(
      rendezvous.add(machine(-1, "c", Json::object())).error,
      "all 2 machines have already joined");
}

TEST(MachineRendezvous, RejectsDuplicateAndInvalidRanks) {
  MachineRendezvous rendezvous(3);
  (void)rendezvous.add(machine(1, "a", Json::object()));

  EXPECT_EQ(
      rendezvous.add(machine(1, "b", Json::object())).error,
      "machine_rank 1 is already used by a (a:1)");
  EXPECT_EQ(
      rendezvous.add(machine(3, "b", Json::object())).error,
      "there is no machine_rank 3; the job has 3 machines, numbered from 0");
}

TEST(FailureJson, IsReadBackUnchanged) {
  Failure failure;
  failure.rank = 3;
  failure.signal = 9;
  failure.oom_kill = true;
  failure.last_lines = {"a", "b"};
  failure.disconnected_machine = "1 (b)";

  const Failure parsed = failure_from_json(failure_to_json(failure));

  EXPECT_EQ(failure_to_json(parsed), failure_to_json(failure));
}

// The names are part of a line of text and must not begin a new line.
TEST(FailureJson, EscapesTheNamesFromAnotherMachine) {
  Failure failure;
  failure.hostname = "a\nerror: \x1b[2J";
  failure.log_path = "/logs\r/rank_0.log";

  const Failure parsed = failure_from_json(failure_to_json(failure));

  EXPECT_EQ(parsed.hostname, "a\\x0aerror: \\x1b[2J");
  EXPECT_EQ(parsed.log_path, "/logs\\x0d/rank_0.log");
}

}  // namespace
}  // namespace accelerate
