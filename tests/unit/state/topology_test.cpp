// SPDX-License-Identifier: Apache-2.0
#include "state/topology.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using Variables = std::map<std::string, std::string>;

Topology detect(const Variables& variables) {
  return detect_topology(Environment(variables));
}

// The last of four processes: the second of two processes on the second of two
// nodes.
const Variables kTorchrun = {
    {"RANK", "3"},
    {"WORLD_SIZE", "4"},
    {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "2"},
    {"GROUP_RANK", "1"},
    {"MASTER_ADDR", "node-a"},
    {"MASTER_PORT", "29501"}};

struct LauncherCase {
  std::string name;
  Variables variables;
  Launcher launcher;
  // Process index and count, local index and count, node index and count.
  std::array<int, 6> expected;
};

class DetectTopology : public testing::TestWithParam<LauncherCase> {};

TEST_P(DetectTopology, FindsRanksAndNodes) {
  const Topology found = detect(GetParam().variables);

  EXPECT_STREQ(name_of(found.launcher), name_of(GetParam().launcher));
  EXPECT_EQ(
      (std::array<int, 6>{
          found.process_index,
          found.num_processes,
          found.local_process_index,
          found.local_num_processes,
          found.node_index,
          found.num_nodes}),
      GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Topology,
    DetectTopology,
    testing::Values(
        LauncherCase{"Nothing", {}, Launcher::none, {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "WorldSizeOneAlone",
            {{"WORLD_SIZE", "1"}},
            Launcher::none,
            {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "EmptyVariablesCountAsUnset",
            {{"RANK", ""}, {"WORLD_SIZE", ""}},
            Launcher::none,
            {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "Torchrun", kTorchrun, Launcher::torchrun, {3, 4, 1, 2, 1, 2}},
        LauncherCase{
            "TorchrunRankAndSizeOnly",
            {{"RANK", "1"}, {"WORLD_SIZE", "2"}},
            Launcher::torchrun,
            {1, 2, 1, 2, 0, 1}},
        LauncherCase{
            "OpenMpi",
            {{"OMPI_COMM_WORLD_RANK", "3"},
             {"OMPI_COMM_WORLD_SIZE", "4"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
            Launcher::openmpi,
            {3, 4, 1, 2, 1, 2}},
        LauncherCase{
            "Mpich",
            {{"PMI_RANK", "1"},
             {"PMI_SIZE", "3"},
             {"MPI_LOCALRANKID", "1"},
             {"MPI_LOCALNRANKS", "3"}},
            Launcher::mpich,
            {1, 3, 1, 3, 0, 1}},
        LauncherCase{
            "Mvapich",
            {{"MV2_COMM_WORLD_RANK", "2"},
             {"MV2_COMM_WORLD_SIZE", "3"},
             {"MV2_COMM_WORLD_LOCAL_RANK", "2"},
             {"MV2_COMM_WORLD_LOCAL_SIZE", "3"}},
            Launcher::mvapich,
            {2, 3, 2, 3, 0, 1}},
        LauncherCase{
            "SrunOnOneNode",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "1"},
             {"SLURM_NODEID", "0"},
             {"SLURM_STEP_NUM_NODES", "1"}},
            Launcher::slurm,
            {1, 2, 1, 2, 0, 1}},
        LauncherCase{
            "SrunOnUnequalNodes",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "6"},
             {"SLURM_STEP_NUM_TASKS", "7"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "3"},
             {"SLURM_STEP_NUM_NODES", "4"},
             {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}},
            Launcher::slurm,
            {6, 7, 0, 1, 3, 4}},
        LauncherCase{
            "SrunOnTwoNodes",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "2"},
             {"SLURM_STEP_NUM_TASKS", "4"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "1"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}},
            Launcher::slurm,
            {2, 4, 0, 2, 1, 2}},
        LauncherCase{
            "SrunWithPmi2",
            {{"PMI_RANK", "2"},
             {"PMI_SIZE", "4"},
             {"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "2"},
             {"SLURM_STEP_NUM_TASKS", "4"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "1"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}},
            Launcher::slurm,
            {2, 4, 0, 2, 1, 2}},
        LauncherCase{
            "SrunWithPmix",
            {{"PMIX_RANK", "2"},
             {"PMIX_NAMESPACE", "slurm.pmix.3.0"},
             {"OMPI_COMM_WORLD_RANK", "2"},
             {"OMPI_COMM_WORLD_SIZE", "4"},
             {"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "2"},
             {"SLURM_STEP_NUM_TASKS", "4"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "1"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}},
            Launcher::slurm,
            {2, 4, 0, 2, 1, 2}},
        // MPICH starts one proxy per node with `srun`.
        LauncherCase{
            "MpiexecInsideASlurmJob",
            {{"PMI_RANK", "3"},
             {"PMI_SIZE", "4"},
             {"MPI_LOCALRANKID", "1"},
             {"MPI_LOCALNRANKS", "2"},
             {"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "1"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}},
            Launcher::mpich,
            {3, 4, 1, 2, 1, 2}},
        LauncherCase{
            "OnlyWorkerOfALaunchInsideSrun",
            {{"ACCELERATE_LAUNCH_ID", "x"},
             {"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "1"},
             {"SLURM_STEP_NUM_NODES", "1"}},
            Launcher::none,
            {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "SallocShellIsOneProcess",
            {{"SLURM_JOB_ID", "7"},
             {"SLURM_NTASKS", "8"},
             {"SLURM_NNODES", "2"},
             {"SLURM_TASKS_PER_NODE", "4(x2)"}},
            Launcher::none,
            {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "StepWithoutACountIsOneProcess",
            {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}},
            Launcher::none,
            {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "OneLocalProcessAlone",
            {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}},
            Launcher::none,
            {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "TorchrunOnUnequalNodes",
            {{"RANK", "2"},
             {"WORLD_SIZE", "6"},
             {"LOCAL_RANK", "0"},
             {"LOCAL_WORLD_SIZE", "4"},
             {"GROUP_RANK", "2"}},
            Launcher::torchrun,
            {2, 6, 0, 4, 2, 3}},
        LauncherCase{
            "TorchrunWithNumberOfNodes",
            {{"RANK", "4"},
             {"WORLD_SIZE", "6"},
             {"LOCAL_RANK", "0"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"GROUP_RANK", "1"},
             {"GROUP_WORLD_SIZE", "2"}},
            Launcher::torchrun,
            {4, 6, 0, 2, 1, 2}},
        LauncherCase{
            "SlurmBatchScriptIsOneProcess",
            {{"SLURM_PROCID", "0"},
             {"SLURM_NTASKS", "8"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "0"}},
            Launcher::none,
            {0, 1, 0, 1, 0, 1}},
        LauncherCase{
            "TorchrunInsideSrun",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "0"},
             {"SLURM_STEP_NUM_TASKS", "1"},
             {"RANK", "1"},
             {"WORLD_SIZE", "2"}},
            Launcher::torchrun,
            {1, 2, 1, 2, 0, 1}}),
    [](const auto& test) { return test.param.name; });

TEST(DetectTopologyAddress, ReadsTheRendezvousAddress) {
  Variables variables = kTorchrun;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RESTART_COUNT"] = "3";
  variables["TMPDIR"] = "/scratch";

  const Topology found = detect(variables);

  EXPECT_EQ(found.main_address, "node-a");
  EXPECT_EQ(found.main_port, 29501);
  EXPECT_TRUE(found.launcher_serves_store);
  EXPECT_EQ(found.restart_count, 3);
  EXPECT_EQ(found.scratch_folder, "/scratch");
}

const Variables kSrun = {
    {"SLURM_STEP_ID", "0"},
    {"SLURM_PROCID", "1"},
    {"SLURM_STEP_NUM_TASKS", "2"},
    {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "1"},
    {"SLURM_STEP_NUM_NODES", "2"},
    {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
    {"SLURM_STEP_NODELIST", "gpu[07-08]"},
    {"SLURM_JOB_ID", "12345"}};

TEST(DetectTopologyAddress, SrunUsesTheFirstNode) {
  const Topology found = detect(kSrun);

  EXPECT_EQ(found.main_address, "gpu07");
  EXPECT_FALSE(found.main_port);
  ASSERT_TRUE(found.slurm_step);
  EXPECT_EQ(found.slurm_step->name(), "step 0 of Slurm job 12345");
}

TEST(DetectTopologyAddress, SrunKeepsTheUsersAddress) {
  Variables variables = kSrun;
  variables["MASTER_ADDR"] = "node-a";

  const Topology found = detect(variables);

  EXPECT_EQ(found.main_address, "node-a");
  EXPECT_FALSE(found.slurm_step);
}

struct Contradiction {
  std::string name;
  Variables variables;
  std::string text;
  std::string hint;
};

class Contradictory : public testing::TestWithParam<Contradiction> {};

TEST_P(Contradictory, ReportsVariableValueAndHint) {
  try {
    detect(GetParam().variables);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), GetParam().text);
    EXPECT_EQ(error.hint(), GetParam().hint);
  }
}

Variables torchrun_with(const std::string& name, const std::string& value) {
  Variables variables = kTorchrun;
  variables[name] = value;
  return variables;
}

const char* const kBothOrNeither =
    "set both variables, or neither for a single process; a launcher sets them";

INSTANTIATE_TEST_SUITE_P(
    Topology,
    Contradictory,
    testing::Values(
        Contradiction{
            "RankWithoutSize",
            {{"RANK", "1"}},
            "environment variable RANK is `1`, but WORLD_SIZE is not set",
            kBothOrNeither},
        Contradiction{
            "SizeWithoutRank",
            {{"WORLD_SIZE", "4"}},
            "environment variable WORLD_SIZE is `4`, but RANK is not set",
            kBothOrNeither},
        Contradiction{
            "RankNotBelowSize",
            {{"RANK", "4"}, {"WORLD_SIZE", "4"}},
            "environment variable RANK is `4`, but WORLD_SIZE is `4`",
            "set RANK to a number from 0 to 3"},
        Contradiction{
            "NegativeRank",
            {{"RANK", "-1"}, {"WORLD_SIZE", "4"}},
            "environment variable RANK is `-1`, not a whole number from 0 to "
            "2147483647",
            "set RANK to a number in this range, or unset it"},
        Contradiction{
            "NotANumber",
            {{"RANK", "0"}, {"WORLD_SIZE", "two"}},
            "environment variable WORLD_SIZE is `two`, not a whole number from "
            "1 to 2147483647",
            "set WORLD_SIZE to a number in this range, or unset it"},
        Contradiction{
            "NumberWithTail",
            {{"RANK", "1x"}, {"WORLD_SIZE", "2"}},
            "environment variable RANK is `1x`, not a whole number from 0 to "
            "2147483647",
            "set RANK to a number in this range, or unset it"},
        Contradiction{
            "LocalRankWithoutLocalSize",
            {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}},
            "environment variable LOCAL_RANK is `1`, but LOCAL_WORLD_SIZE is "
            "not set",
            "set both variables, or neither when all processes are on one "
            "machine"},
        Contradiction{
            "LocalSizeWithoutLocalRank",
            {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
            "environment variable LOCAL_WORLD_SIZE is `2`, but LOCAL_RANK is "
            "not set",
            "set both variables, or neither when all processes are on one "
            "machine"},
        Contradiction{
            "LocalRankAlone",
            {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}},
            "environment variable LOCAL_RANK is `1`, but RANK is not set",
            "set RANK and WORLD_SIZE too, or unset LOCAL_RANK for a single "
            "process; a launcher sets all of these variables"},
        Contradiction{
            "LocalSizeOfMpiAlone",
            {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
            "environment variable OMPI_COMM_WORLD_LOCAL_SIZE is `2`, but "
            "OMPI_COMM_WORLD_RANK is not set",
            "set OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE too, or unset "
            "OMPI_COMM_WORLD_LOCAL_SIZE for a single process; a launcher sets "
            "all of these variables"},
        Contradiction{
            "LocalRankDiffersOnOneMachine",
            {{"RANK", "1"},
             {"WORLD_SIZE", "2"},
             {"LOCAL_RANK", "0"},
             {"LOCAL_WORLD_SIZE", "2"}},
            "environment variable LOCAL_RANK is `0`, but RANK is `1`, and all "
            "2 "
            "processes are on this machine",
            "set LOCAL_RANK to 1: on a single machine LOCAL_RANK equals RANK"},
        Contradiction{
            "TorchrunNodeOnOneMachine",
            {{"RANK", "1"},
             {"WORLD_SIZE", "2"},
             {"LOCAL_RANK", "1"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"GROUP_RANK", "7"}},
            "environment variable GROUP_RANK is `7`, but all 2 processes are "
            "on "
            "this machine",
            "set GROUP_RANK to 0, or unset it"},
        Contradiction{
            "TorchrunNodeOnTwoMachines",
            torchrun_with("GROUP_RANK", "3"),
            "environment variable GROUP_RANK is `3`, but this machine runs 2 "
            "of "
            "4 processes, so there are at most 3 machines",
            "set GROUP_RANK to a number from 0 to 2"},
        Contradiction{
            "LocalRankAboveTheRank",
            {{"RANK", "0"},
             {"WORLD_SIZE", "4"},
             {"LOCAL_RANK", "1"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"GROUP_RANK", "0"}},
            "environment variable LOCAL_RANK is `1`, but RANK is `0`",
            "set LOCAL_RANK to a number from 0 to 0: a local rank is never "
            "greater than the global rank"},
        Contradiction{
            "LocalRankDiffersOnTheFirstMachine",
            {{"RANK", "3"},
             {"WORLD_SIZE", "4"},
             {"LOCAL_RANK", "0"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"GROUP_RANK", "0"}},
            "environment variable GROUP_RANK is `0`, but RANK is `3` and "
            "LOCAL_RANK is `0`; on the first machine both must be equal",
            "set GROUP_RANK to the index of this machine or, if this is the "
            "first machine, RANK to 0"},
        Contradiction{
            "MoreMachinesThanProcesses",
            torchrun_with("GROUP_WORLD_SIZE", "4"),
            "environment variable GROUP_WORLD_SIZE is `4`, but this machine "
            "runs 2 of 4 processes, so the number of machines is at most 3",
            "set GROUP_WORLD_SIZE to a number from 2 to 3"},
        Contradiction{
            "OneMachineWithoutAllProcesses",
            {{"RANK", "0"},
             {"WORLD_SIZE", "3"},
             {"LOCAL_RANK", "0"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"GROUP_RANK", "0"},
             {"GROUP_WORLD_SIZE", "1"}},
            "environment variable GROUP_WORLD_SIZE is `1`, but this machine "
            "runs 2 of 3 processes, so the number of machines is at least 2",
            "set GROUP_WORLD_SIZE to 2"},
        Contradiction{
            "NodeNotBelowTheNumberOfNodes",
            {{"RANK", "2"},
             {"WORLD_SIZE", "4"},
             {"LOCAL_RANK", "0"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"GROUP_RANK", "2"},
             {"GROUP_WORLD_SIZE", "2"}},
            "environment variable GROUP_RANK is `2`, but GROUP_WORLD_SIZE is "
            "`2`",
            "set GROUP_RANK to a number from 0 to 1"},
        Contradiction{
            "SlurmRankWithoutTasks",
            {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}},
            "environment variable SLURM_PROCID is `1`, but "
            "SLURM_STEP_NUM_TASKS "
            "is not set",
            kBothOrNeither},
        Contradiction{
            "SlurmTaskWithoutLocalId",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_STEP_NUM_TASKS", "2"}},
            "environment variable SLURM_STEP_NUM_TASKS is `2`, but "
            "SLURM_LOCALID is not set",
            "set both variables, or neither when all processes are on one "
            "machine"},
        Contradiction{
            "SlurmNodesWithoutTheirTasks",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "1"},
             {"SLURM_STEP_NUM_NODES", "2"}},
            "environment variable SLURM_LOCALID is `0`, but "
            "SLURM_STEP_TASKS_PER_NODE is not set",
            "set both variables, or neither when all processes are on one "
            "machine"},
        Contradiction{
            "SlurmNodesWithoutAnIndex",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}},
            "environment variable SLURM_STEP_NUM_NODES is `2`, but "
            "SLURM_NODEID is not set",
            "start the program with `srun`, which sets both variables"},
        Contradiction{
            "SlurmNodeOutsideTheList",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "1"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "2"}},
            "environment variable SLURM_NODEID is `1`, but "
            "SLURM_STEP_TASKS_PER_NODE is `2`, which covers only node 0",
            "start the program with `srun`, which sets both variables"},
        Contradiction{
            "LocalRankNotBelowLocalSize",
            torchrun_with("LOCAL_RANK", "2"),
            "environment variable LOCAL_RANK is `2`, but LOCAL_WORLD_SIZE is "
            "`2`",
            "set LOCAL_RANK to a number from 0 to 1"},
        Contradiction{
            "LocalSizeAboveWorldSize",
            torchrun_with("LOCAL_WORLD_SIZE", "5"),
            "environment variable LOCAL_WORLD_SIZE is `5`, but WORLD_SIZE is "
            "`4`",
            "set LOCAL_WORLD_SIZE to the number of processes on this machine, "
            "and WORLD_SIZE to the number on all machines"},
        Contradiction{
            "PortTooLarge",
            torchrun_with("MASTER_PORT", "65536"),
            "environment variable MASTER_PORT is `65536`, not a whole number "
            "from 1 to 65535",
            "set MASTER_PORT to a number in this range, or unset it"},
        Contradiction{
            "AnotherMachineWithoutLocalRank",
            {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node-a"}},
            "environment variable MASTER_ADDR is `node-a`, so the job may span "
            "several machines, but LOCAL_RANK is not set",
            "set LOCAL_RANK and LOCAL_WORLD_SIZE, or use a launcher, which "
            "sets these variables"},
        Contradiction{
            "AgentStoreFlag",
            torchrun_with("TORCHELASTIC_USE_AGENT_STORE", "maybe"),
            "environment variable TORCHELASTIC_USE_AGENT_STORE is `maybe`, not "
            "a boolean",
            "set TORCHELASTIC_USE_AGENT_STORE to true or false"},
        Contradiction{
            "OpenMpiRankWithoutSize",
            {{"OMPI_COMM_WORLD_RANK", "0"}},
            "environment variable OMPI_COMM_WORLD_RANK is `0`, but "
            "OMPI_COMM_WORLD_SIZE is not set",
            kBothOrNeither},
        Contradiction{
            "SlurmTaskList",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "0"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "0"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "many"}},
            "environment variable SLURM_STEP_TASKS_PER_NODE is `many`, not a "
            "list like `2(x3),1`",
            "start the program with `srun`, which sets this variable"},
        Contradiction{
            "NodeIndexNotBelowNodes",
            {{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "0"},
             {"SLURM_STEP_NUM_TASKS", "2"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_NODEID", "2"},
             {"SLURM_STEP_NUM_NODES", "2"},
             {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"}},
            "environment variable SLURM_NODEID is `2`, but "
            "SLURM_STEP_NUM_NODES "
            "is `2`",
            "set SLURM_NODEID to a number from 0 to 1"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace accelerate
