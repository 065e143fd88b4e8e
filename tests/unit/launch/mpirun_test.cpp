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
  options.hostfile = "hosts";
  options.num_processes = 4;
  options.num_machines = 2;
  options.variables = {{"A", "1"}, {"B", "x y"}};
  options.words = {"./train", "--lr", "0.1"};
  return options;
}

TEST(Mpirun, SpeaksOpenMpi) {
  EXPECT_EQ(
      join(mpirun_words(mpi_options(MpiFamily::open_mpi)), "|"),
      "mpirun|--hostfile|hosts|-np|4|--map-by|ppr:2:node|--bind-to|none|-x|A=1|"
      "-x|B=x y|./train|--lr|0.1");
}

TEST(Mpirun, SpeaksMpich) {
  EXPECT_EQ(
      join(mpirun_words(mpi_options(MpiFamily::mpich)), "|"),
      "mpirun|-f|hosts|-n|4|-ppn|2|-genv|A|1|-genv|B|x y|./train|--lr|0.1");
}

TEST(Mpirun, TellsTheFamiliesApart) {
  EXPECT_EQ(mpi_family("mpirun (Open MPI) 4.1.4\n"), MpiFamily::open_mpi);
  EXPECT_EQ(mpi_family("HYDRA build details:\n"), MpiFamily::mpich);
  EXPECT_EQ(
      mpi_family("Intel(R) MPI Library for Linux* OS\n"), MpiFamily::mpich);
  EXPECT_THROW(mpi_family("something else"), UnsupportedError);
}

TEST(Mpirun, FindsTheFirstHost) {
  EXPECT_EQ(first_mpi_host("# comment\n\nnode-a slots=2\nnode-b\n"), "node-a");
  EXPECT_EQ(first_mpi_host("node-a:2\n"), "node-a");
  EXPECT_EQ(first_mpi_host("\n"), "");
}

}  // namespace
}  // namespace accelerate
