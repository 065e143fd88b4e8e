// SPDX-License-Identifier: Apache-2.0
#include "launch/mpirun.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/text.h"

namespace accelerate {
namespace {

MpirunOptions mpi_options(MpiFamily family) {
  MpirunOptions options;
  options.family = family;
  options.hostfile = "hostfile";
  options.num_processes = 4;
  options.num_machines = 2;
  options.variables = {{"A", "1"}, {"B", "x y"}};
  options.program_argv = {"./train", "--lr", "0.1"};
  return options;
}

TEST(Mpirun, BuildsTheCommandForOpenMpi) {
  EXPECT_EQ(
      join(mpirun_argv(mpi_options(MpiFamily::open_mpi)), "|"),
      "mpirun|--hostfile|hostfile|-np|4|--map-by|ppr:2:node|--bind-to|none|-x|"
      "A=1|"
      "-x|B=x y|./train|--lr|0.1");
}

TEST(Mpirun, BuildsTheCommandForMpich) {
  EXPECT_EQ(
      join(mpirun_argv(mpi_options(MpiFamily::mpich)), "|"),
      "mpirun|-f|hostfile|-n|4|-ppn|2|-genv|A|1|-genv|B|x y|./train|--lr|0.1");
}

TEST(Mpirun, DetectsTheFamily) {
  EXPECT_EQ(mpi_family("mpirun (Open MPI) 4.1.4\n"), MpiFamily::open_mpi);
  EXPECT_EQ(mpi_family("HYDRA build details:\n"), MpiFamily::mpich);
  EXPECT_EQ(
      mpi_family("Intel(R) MPI Library for Linux* OS\n"), MpiFamily::mpich);
  EXPECT_THROW(mpi_family("something else"), UnsupportedError);
}

TEST(Mpirun, FindsTheFirstNodeOfAHostfile) {
  EXPECT_EQ(
      first_hostfile_node("# comment\n\nnode-a slots=2\nnode-b\n"), "node-a");
  EXPECT_EQ(first_hostfile_node("node-a:2\n"), "node-a");
  EXPECT_EQ(first_hostfile_node("\n"), "");
}

}  // namespace
}  // namespace accelerate
