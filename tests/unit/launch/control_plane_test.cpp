// SPDX-License-Identifier: Apache-2.0
// The conformance suite for control planes: every test runs with jobs on one,
// two and three machines, so it covers all implementations.
#include "launch/control_plane.h"

#include <deque>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/progress_file.h"
#include "base/store_client.h"
#include "base/str_cat.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;

// The machines of a job, all in this process.
class Job {
 public:
  explicit Job(int num_machines, bool assigns_ranks = false)
      : port_(reserve_port("127.0.0.1")),
        num_machines_(num_machines),
        assigns_ranks_(assigns_ranks) {
    for (int rank = 0; rank < num_machines; ++rank) {
      plans_.push_back(plan(rank));
      machines_.push_back(open_control_plane(
          plans_.back(),
          {[](const std::string&) {}, [](const std::string&) {}}));
    }
  }

  std::vector<std::unique_ptr<ControlPlane>>& machines() { return machines_; }
  const LaunchPlan& plan_of(std::size_t machine) { return plans_[machine]; }

  std::vector<Generation> start(std::int64_t number) {
    std::vector<std::future<Generation>> pending;
    for (const auto& machine : machines_) {
      pending.push_back(std::async(std::launch::async, [&machine, number] {
        return machine->start_generation(number);
      }));
    }
    std::vector<Generation> generations;
    for (auto& generation : pending) {
      generations.push_back(generation.get());
    }
    return generations;
  }

 private:
  LaunchPlan plan(int machine_rank) {
    LaunchPlan result;
    result.environment = Environment(std::map<std::string, std::string>{
        {"ACCELERATE_JOB_SECRET", "a secret of this test"}});
    result.hardware.cores = 2;
    result.hardware.hostname = "machine-" + std::to_string(machine_rank);
    std::map<std::string, std::string> flags = {
        {"use_cpu", "1"},
        {"num_machines", std::to_string(num_machines_)},
        {"num_processes", std::to_string(2 * num_machines_)},
        {"main_process_port", std::to_string(port_.port)}};
    if (num_machines_ > 1) {
      flags["main_process_ip"] = "127.0.0.1";
      flags["rdzv_timeout"] = "20";
      flags[assigns_ranks_ ? "rdzv_backend" : "machine_rank"] =
          assigns_ranks_ ? "c10d" : std::to_string(machine_rank);
    }
    for (const auto& [name, value] : flags) {
      result.settings.apply_flag(*find_setting(name), value, name);
    }
    complete_settings(result.settings, result.hardware, result.environment);
    result.argv = {"./train"};
    result.launch_id = "launch-" + std::to_string(machine_rank);
    result.files.folder = fresh_folder();
    return result;
  }

  ReservedPort port_;
  int num_machines_;
  bool assigns_ranks_;
  std::deque<LaunchPlan> plans_;
  std::vector<std::unique_ptr<ControlPlane>> machines_;
};

// Returns the options with which the first worker of a machine connects.
StoreClientOptions worker_of(const Generation& generation) {
  StoreClientOptions options;
  options.endpoint = parse_endpoint(generation.store);
  options.secret = generation.store_secret;
  options.hello = {
      store::Role::worker,
      static_cast<std::uint32_t>(generation.shape.first_rank),
      static_cast<std::uint32_t>(generation.number)};
  return options;
}

// Events from other machines arrive on other threads.
bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

class ControlPlaneTest : public testing::TestWithParam<int> {
 protected:
  Job job_{GetParam()};
  std::vector<std::unique_ptr<ControlPlane>>& machines_ = job_.machines();
};

TEST_P(ControlPlaneTest, StartsTheSameGenerationOnEveryMachine) {
  const auto generations = job_.start(0);

  for (std::size_t i = 0; i < generations.size(); ++i) {
    EXPECT_EQ(generations[i].number, 0);
    EXPECT_EQ(generations[i].shape.machine_rank, static_cast<int>(i));
    EXPECT_EQ(generations[i].shape.first_rank, static_cast<int>(2 * i));
    EXPECT_EQ(generations[i].shape.num_processes, 2 * GetParam());
    EXPECT_EQ(generations[i].run_id, "launch-0");
    EXPECT_EQ(generations[i].main_address, "127.0.0.1");
    EXPECT_EQ(generations[i].main_port, generations[0].main_port);
    EXPECT_NE(generations[i].main_port, "");
  }
}

TEST_P(ControlPlaneTest, ConnectsWorkersToOneStore) {
  const auto generations = job_.start(0);

  StoreClient(worker_of(generations.back())).set("key", "value");

  for (const Generation& generation : generations) {
    EXPECT_EQ(StoreClient(worker_of(generation)).get("key", 10s), "value");
  }
}

TEST_P(ControlPlaneTest, ANewGenerationStartsWithAnEmptyStoreAndNoEvents) {
  StoreClient(worker_of(job_.start(0)[0])).set("key", "old");
  for (const auto& machine : machines_) {
    machine->report_done();
  }
  for (const auto& machine : machines_) {
    EXPECT_TRUE(becomes_true([&] { return machine->events().all_done(); }));
  }

  const auto generations = job_.start(1);

  for (const auto& machine : machines_) {
    EXPECT_FALSE(machine->events().all_done());
  }
  for (const Generation& generation : generations) {
    EXPECT_EQ(generation.number, 1);
    EXPECT_FALSE(StoreClient(worker_of(generation)).check({"key"}));
  }
}

TEST_P(ControlPlaneTest, IsDoneWhenTheLastMachineIsDone) {
  (void)job_.start(0);

  for (std::size_t i = 0; i + 1 < machines_.size(); ++i) {
    machines_[i]->report_done();
  }
  EXPECT_FALSE(machines_.back()->events().all_done());
  machines_.back()->report_done();

  for (const auto& machine : machines_) {
    EXPECT_TRUE(becomes_true([&] { return machine->events().all_done(); }));
  }
}

TEST_P(ControlPlaneTest, ReportsAFailureToTheOtherMachines) {
  (void)job_.start(0);
  Failure failure;
  failure.rank = 2 * GetParam() - 1;
  failure.exit_code = 3;

  machines_.back()->report_failure(failure);

  for (std::size_t i = 0; i + 1 < machines_.size(); ++i) {
    std::optional<Failure> received;
    EXPECT_TRUE(becomes_true([&] {
      received = machines_[i]->events().take_failure();
      return received.has_value();
    }));
    EXPECT_EQ(received->rank, failure.rank);
    EXPECT_EQ(received->exit_code, 3);
  }
  EXPECT_FALSE(machines_.back()->events().take_failure());
}

TEST(MainMachine, RefusesMessagesForAMachineThatHasNotJoined) {
  Job job(2);
  StoreClientOptions options = worker_of(job.start(0)[0]);
  options.hello = {store::Role::machine, 1, 0};
  StoreClient client(options);

  for (const char* type : {"done", "steps", "status", "fail", "poll"}) {
    const Json message = Json::object(
        {{"type", type},
         {"rank", 7},
         {"restart", 0},
         {"ranks", Json::array()}});
    const Json answer = Json::parse(client.exchange(message.dump(), 1s));
    ASSERT_NE(answer.find("error"), nullptr) << type;
    EXPECT_EQ(answer.at("error").as_string(), "machine 7 has not joined");
  }
}

TEST_P(ControlPlaneTest, AbortingTheStoreEndsTheWaitsOfAllWorkers) {
  const auto generations = job_.start(0);
  std::vector<std::future<std::string>> waits;
  for (const Generation& generation : generations) {
    waits.push_back(std::async(std::launch::async, [&generation] {
      return StoreClient(worker_of(generation)).get("never set", 20s);
    }));
  }

  for (const auto& machine : machines_) {
    machine->abort_store("rank 1 failed");
  }

  for (auto& wait : waits) {
    EXPECT_THROW((void)wait.get(), DistributedError);
  }
}

TEST_P(ControlPlaneTest, KnowsWhatEveryRankIsDoing) {
  const auto generations = job_.start(0);
  std::deque<StoreClient> workers;
  for (const Generation& generation : generations) {
    workers.emplace_back(worker_of(generation)).set_status("all_reduce #4");
  }

  for (const auto& machine : machines_) {
    const auto status = machine->status();
    ASSERT_EQ(status.size(), generations.size());
    for (const RankStatus& rank : status) {
      EXPECT_TRUE(rank.is_connected);
      EXPECT_EQ(rank.status, "all_reduce #4");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Machines, ControlPlaneTest, testing::Values(1, 2, 3), [](const auto& test) {
      return std::to_string(test.param);
    });

TEST(MainMachine, AssignsRanksToJoiningMachines) {
  Job job(2, /*assigns_ranks=*/true);

  const auto generations = job.start(0);

  EXPECT_EQ(job.plan_of(1).settings.integer("machine_rank"), 0);
  EXPECT_EQ(generations[1].shape.machine_rank, 1);
  EXPECT_EQ(generations[1].shape.first_rank, 2);
}

TEST(MainMachine, CollectsTheStepsOfOtherMachines) {
  Job job(2);
  const auto generations = job.start(0);
  const std::string file = job.plan_of(1).files.progress_file(2);
  create_progress_file(file);
  ProgressWriter(file).write(7);
  const StoreClient worker(worker_of(generations[1]));

  const auto status = job.machines()[0]->status();

  ASSERT_EQ(status.size(), 1U);
  EXPECT_EQ(status[0].rank, 2U);
  EXPECT_EQ(status[0].step, 7);
}

TEST(MainMachine, StopsWaitingWhenItIsCancelled) {
  Job job(2);
  ControlPlane& main = *job.machines()[0];
  auto generation =
      std::async(std::launch::async, [&] { return main.start_generation(0); });

  main.cancel();

  try {
    (void)generation.get();
    ADD_FAILURE() << "no error";
  } catch (const DistributedError& error) {
    EXPECT_STREQ(error.what(), "machine 0 was interrupted");
  }
}

// The machines of a Slurm step on two nodes, both of which are simulated on
// this machine.
class Step {
 public:
  Step(const char* job, const char* step, const char* port = "") {
    for (const char* node : {"0", "1"}) {
      LaunchPlan plan;
      plan.environment = Environment(std::map<std::string, std::string>{
          {"ACCELERATE_JOB_SECRET", "a secret of this test"},
          {"SLURM_JOB_ID", job},
          {"SLURM_STEP_ID", step},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_STEP_NODELIST", "127.0.0.[1,1]"},
          {"SLURM_NODEID", node}});
      plan.hardware.cores = 2;
      plan.hardware.hostname = std::string("node-") + node;
      plan.settings.apply_flag(*find_setting("use_cpu"), "1", "--cpu");
      plan.settings.apply_flag(
          *find_setting("rdzv_timeout"), "20", "--rdzv_timeout");
      if (port[0] != '\0') {
        plan.settings.apply_flag(
            *find_setting("main_process_port"), port, "--main_process_port");
      }
      complete_settings(plan.settings, plan.hardware, plan.environment);
      plan.argv = {"./train"};
      plan.launch_id = str_cat("launch-", job, "-", step, "-", node);
      plan.files.folder = fresh_folder();
      plans_.push_back(std::move(plan));
    }
  }

  std::unique_ptr<ControlPlane> open(std::size_t node) {
    return open_control_plane(
        plans_[node], {[](const std::string&) {}, [](const std::string&) {}});
  }
  /// The ports of the step, in order.
  std::vector<std::uint16_t> ports() const {
    return main_address(plans_[0].settings, plans_[0].environment).ports;
  }

 private:
  std::deque<LaunchPlan> plans_;
};

// Starts the first generation on both machines.
std::vector<Generation> start_both(ControlPlane& main, ControlPlane& joining) {
  auto first =
      std::async(std::launch::async, [&] { return main.start_generation(0); });
  Generation second = joining.start_generation(0);
  return {first.get(), second};
}

TEST(SlurmStepMachines, UseTheNextPortIfTheFirstOneIsTaken) {
  Step step("4711", "0");
  const UniqueFd other_program =
      listen_on({false, "127.0.0.1", step.ports()[0]});
  const auto main = step.open(0);
  const auto joining = step.open(1);

  const auto generations = start_both(*main, *joining);

  EXPECT_EQ(generations[1].run_id, "launch-4711-0-0");
  EXPECT_EQ(generations[1].store, str_cat("tcp:127.0.0.1:", step.ports()[1]));
  EXPECT_EQ(generations[0].main_port, generations[1].main_port);
}

// Two steps run at the same time on the same ports.
TEST(SlurmStepMachines, JoinOnlyTheirOwnStep) {
  Step step("4711", "1");
  StoreServerOptions options;
  options.secret = "a secret of this test";
  options.endpoints = {{false, "127.0.0.1", step.ports()[0]}};
  // Machine 0 of another step listens on the first port of this step.
  LaunchPlan strange;
  strange.settings.apply_flag(*find_setting("num_machines"), "2", "");
  strange.settings.apply_flag(*find_setting("num_processes"), "2", "");
  strange.settings.apply_flag(*find_setting("rdzv_timeout"), "20", "");
  const auto stranger = create_main_machine(
      strange,
      {0, "stranger", "", "step 2 of Slurm job 4711", Json::object()},
      {options, options.endpoints[0], 0},
      [](const std::string&) {});
  auto waiting = std::async(
      std::launch::async, [&] { return stranger->start_generation(0); });
  const auto main = step.open(0);
  const auto joining = step.open(1);

  const auto generations = start_both(*main, *joining);

  EXPECT_EQ(generations[1].run_id, "launch-4711-1-0");
  stranger->cancel();
  EXPECT_THROW((void)waiting.get(), DistributedError);
}

TEST(SlurmStepMachines, AreRefusedByAnotherStepOnTheUsersPort) {
  const std::string port = std::to_string(reserve_port("127.0.0.1").port);
  Step step("4711", "3", port.c_str());
  Step other("4711", "4", port.c_str());
  const auto main = step.open(0);
  auto waiting =
      std::async(std::launch::async, [&] { return main->start_generation(0); });
  const auto stranger = other.open(1);

  try {
    (void)stranger->start_generation(0);
    ADD_FAILURE() << "a machine of another step has joined";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(
        error.what(),
        "this is machine 0 of step 3 of Slurm job 4711, but node-1 belongs to "
        "step 4 of Slurm job 4711");
    EXPECT_EQ(
        error.hint(),
        "use a different `--main_process_port` for each Slurm step");
  }
  main->cancel();
  EXPECT_THROW((void)waiting.get(), DistributedError);
}

TEST(SlurmStepMachines, RefuseANameThatDoesNotResolve) {
  LaunchPlan plan;
  plan.environment = Environment(std::map<std::string, std::string>{
      {"SLURM_JOB_ID", "1"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_STEP_NUM_NODES", "2"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_NODELIST", "no-such-node.invalid,b"},
      {"SLURM_NODEID", "1"}});
  plan.settings.apply_flag(*find_setting("use_cpu"), "1", "--cpu");
  plan.argv = {"./train"};
  complete_settings(plan.settings, plan.hardware, plan.environment);

  try {
    (void)open_control_plane(
        plan, {[](const std::string&) {}, [](const std::string&) {}});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_TRUE(
        std::string(error.what())
            .starts_with("this machine cannot resolve `no-such-node.invalid`, "
                         "the name of machine 0: "))
        << error.what();
  }
}

}  // namespace
}  // namespace accelerate
