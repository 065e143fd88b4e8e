// SPDX-License-Identifier: Apache-2.0
#include "launch/supervisor.h"

#include <atomic>
#include <thread>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/progress_file.h"
#include "base/unique_fd.h"
#include "launch/control_plane.h"
#include "launch/guardian.h"
#include "launch/output.h"
#include "launch/signal_queue.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

// Records what the supervisor reports.
class FakeControlPlane : public ControlPlane {
 public:
  Generation start_generation(std::int64_t) override { return {}; }
  void cancel() override {}
  void report_failure(const Failure& failure) override {
    reported.push_back(failure);
  }
  void report_done() override {
    is_done = true;
    if (!other_machines_run) {
      events_.set_all_done();
    }
  }
  void abort_store(const std::string& reason) override {
    aborted.push_back(reason);
  }
  std::vector<RankStatus> store_status() const override { return {}; }
  std::vector<RankStatus> status() override { return {}; }

  std::vector<Failure> reported;
  std::vector<std::string> aborted;
  bool is_done = false;
  bool other_machines_run = false;
};

class SupervisorTest : public testing::Test {
 protected:
  RunResult supervise_scripts(const std::vector<std::string>& scripts) {
    return supervise_scripts(scripts, output_);
  }

  RunResult supervise_scripts(
      const std::vector<std::string>& scripts, Output& output) {
    options_.hostname = "this-machine";
    if (options_.shape.num_machines == 1) {
      options_.shape.num_processes = static_cast<std::int64_t>(scripts.size());
    }
    std::vector<WorkerCommand> commands;
    for (const std::string& script : scripts) {
      WorkerCommand command;
      command.rank = command.local_rank =
          static_cast<std::int64_t>(commands.size());
      command.argv = {"/bin/sh", "-c", script};
      command.environment = {{"PATH", "/usr/bin:/bin"}};
      const std::string base = folder_ / std::to_string(command.rank);
      command.error_file = base + ".error.json";
      command.progress_file = base + ".step";
      commands.push_back(std::move(command));
    }
    return supervise(
        commands, options_, {control_, guardian_, output, signals_});
  }

  std::filesystem::path folder_ = fresh_folder();
  Guardian guardian_{"supervisor-test", folder_};
  SignalQueue signals_;
  UniqueFd null_{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Output output_{
      {.out = null_.get(),
       .err = null_.get(),
       .num_ranks = 2,
       .log_folder = {}}};
  FakeControlPlane control_;
  SupervisorOptions options_;
};

TEST_F(SupervisorTest, ReturnsWhenAllWorkersHaveExited) {
  const RunResult result = supervise_scripts({"exit 0", "exit 0"});

  EXPECT_EQ(result.exit_code, 0);
  EXPECT_FALSE(result.failure);
  EXPECT_FALSE(result.was_interrupted);
  EXPECT_TRUE(control_.is_done);
  EXPECT_TRUE(control_.aborted.empty());
}

TEST_F(SupervisorTest, StopsTheOthersAfterAFailure) {
  const RunResult result = supervise_scripts({"sleep 50", "exit 3"});

  EXPECT_EQ(result.exit_code, 3);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->rank, 1);
  EXPECT_EQ(result.failure->hostname, "this-machine");
  EXPECT_EQ(result.failure->others_stopped, 1);
  EXPECT_EQ(
      control_.aborted, std::vector<std::string>{"rank 1 exited with code 3"});
  EXPECT_TRUE(control_.reported.empty()) << "there are no other machines";
}

TEST_F(SupervisorTest, DescribesAFailureWithTheFilesOfTheWorker) {
  create_progress_file(folder_ / "0.step");
  ProgressWriter(folder_ / "0.step").write(12);

  const RunResult result = supervise_scripts(
      {"echo '{\"message\": \"bad\"}' > " +
       (folder_ / "0.error.json").string() + "; echo last >&2; exit 1"});

  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->step, 12);
  EXPECT_EQ(result.failure->exception, "bad");
  EXPECT_EQ(result.failure->last_lines, std::vector<std::string>{"last"});
}

// A worker of this library leaves it to the launcher to print its error.
TEST_F(SupervisorTest, PrintsEachErrorOnceAndLogsAllOfThem) {
  const auto write_error = [&](int rank, const std::string& text, int time) {
    return "echo '{\"message\": {\"message\": \"" + text +
           "\", \"extraInfo\": {\"timestamp\": " + std::to_string(time) +
           "}}}' > " +
           (folder_ / (std::to_string(rank) + ".error.json")).string() +
           "; trap '' TERM; sleep 0.2; exit 1";
  };
  const std::string screen = folder_ / "screen";
  const UniqueFd err(
      ::open(screen.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  RunResult result;
  {
    Output output(
        {.out = null_.get(),
         .err = err.get(),
         .num_ranks = 4,
         .log_folder = folder_ / "logs"});

    result = supervise_scripts(
        {write_error(0, "lost rank 1", 12),
         write_error(1, "the root cause", 11),
         write_error(2, "lost rank 1", 13),
         write_error(3, "the root cause", 14)},
        output);
  }

  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->exception, "the root cause");
  EXPECT_EQ(read_file(screen, 1000), "[0] lost rank 1\n");
  EXPECT_EQ(
      read_file(folder_ / "logs/rank_3.stderr.log", 1000), "the root cause\n");
}

TEST_F(SupervisorTest, ReportsAFailureToTheOtherMachines) {
  options_.shape = {.num_processes = 4, .num_machines = 2};

  const RunResult result = supervise_scripts({"echo last >&2; exit 3"});

  ASSERT_EQ(control_.reported.size(), 1U);
  EXPECT_EQ(control_.reported[0].rank, 0);
  EXPECT_EQ(control_.reported[0].exit_code, 3);
  EXPECT_EQ(control_.reported[0].last_lines, std::vector<std::string>{"last"});
  EXPECT_EQ(result.failure->others_stopped, 3);
}

TEST_F(SupervisorTest, StopsForAFailureOnAnotherMachine) {
  options_.shape = {.num_processes = 4, .num_machines = 2};
  Failure failure;
  failure.rank = 3;
  failure.exit_code = 5;
  control_.events().add_failure(failure);

  const RunResult result = supervise_scripts({"sleep 50"});

  EXPECT_EQ(result.exit_code, 5);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->rank, 3);
  EXPECT_EQ(control_.aborted, std::vector<std::string>{"rank 3 failed"});
  EXPECT_TRUE(control_.reported.empty());
}

TEST_F(SupervisorTest, WaitsUntilTheOtherMachinesAreDone) {
  options_.shape = {.num_processes = 2, .num_machines = 2};
  control_.other_machines_run = true;
  std::atomic<bool> others_exited = false;
  std::jthread others([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    others_exited = true;
    control_.events().set_all_done();
  });

  const RunResult result = supervise_scripts({"exit 0"});

  EXPECT_TRUE(others_exited);
  EXPECT_EQ(result.exit_code, 0);
}

}  // namespace
}  // namespace accelerate
