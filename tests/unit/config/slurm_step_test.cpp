// SPDX-License-Identifier: Apache-2.0
#include "config/slurm_step.h"

#include <set>

#include <gtest/gtest.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

using Nodes = std::vector<std::string>;

Nodes expand(const std::string& list) {
  return expand_node_list("SLURM_STEP_NODELIST", list);
}

TEST(SlurmNodeList, IsExpanded) {
  EXPECT_EQ(expand("alone"), (Nodes{"alone"}));
  EXPECT_EQ(expand("b,a"), (Nodes{"b", "a"}));
  EXPECT_EQ(
      expand("node[01-03,7],login"),
      (Nodes{"node01", "node02", "node03", "node7", "login"}));
  EXPECT_EQ(
      expand("node[07-09]-ib"), (Nodes{"node07-ib", "node08-ib", "node09-ib"}));
  EXPECT_EQ(expand("n[098-101]"), (Nodes{"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(
      expand("r[1-2]n[8-9].x"),
      (Nodes{"r1n8.x", "r1n9.x", "r2n8.x", "r2n9.x"}));
}

TEST(SlurmNodeList, IsRefusedIfMalformed) {
  for (const char* bad :
       {"",
        "a,",
        ",a",
        "a[",
        "a]",
        "a[1",
        "a[]",
        "a[2-1]",
        "a[x]",
        "a[-1]",
        "a[1-99999999]",
        "a[1-65536]b[1-65536]",
        "a[[1]]"}) {
    EXPECT_THROW(expand(bad), ConfigError) << bad;
  }
  try {
    expand("a[x]");
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "environment variable SLURM_STEP_NODELIST is `a[x]`, not a list of "
        "nodes like `node[01-03,7],login`");
  }
}

Environment variables(std::map<std::string, std::string> variables) {
  return Environment(std::move(variables));
}

TEST(SlurmStep, IsReadFromTheVariables) {
  const auto step = SlurmStep::of(
      variables({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "4294967290"}}));

  ASSERT_TRUE(step);
  EXPECT_EQ(step->name(), "step 4294967290 of Slurm job 12");
  EXPECT_FALSE(SlurmStep::of(variables({{"SLURM_JOB_ID", "12"}})));
}

TEST(SlurmStep, HasPortsBelowTheEphemeralOnes) {
  for (std::int64_t job = 0; job < 1000; ++job) {
    const auto ports = SlurmStep{job, 0}.ports();
    const std::set<std::uint16_t> distinct(ports.begin(), ports.end());
    EXPECT_EQ(distinct.size(), 8U) << job;
    EXPECT_GE(*distinct.begin(), 20000) << job;
    EXPECT_LT(*distinct.rbegin(), 30000) << job;
  }
}

// Steps with nearby numbers must rarely have the same first port, so that two
// jobs do not compete for a port.
TEST(SlurmStep, HasAnotherFirstPortThanItsNeighbours) {
  std::set<std::uint16_t> first;
  for (std::int64_t job = 100; job < 120; ++job) {
    for (std::int64_t step = 0; step < 5; ++step) {
      first.insert(SlurmStep{job, step}.ports().front());
    }
  }
  EXPECT_GE(first.size(), 98U) << "of 100 steps";
  EXPECT_EQ((SlurmStep{7, 1}.ports()), (SlurmStep{7, 1}.ports()));
}

}  // namespace
}  // namespace accelerate
