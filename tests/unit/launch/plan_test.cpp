// SPDX-License-Identifier: Apache-2.0
#include "launch/plan.h"

#include <functional>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "config/config_file.h"
#include "launch/slurm.h"

namespace accelerate {
namespace {

Hardware make_hardware(std::size_t gpus, std::int64_t cores) {
  Hardware hardware;
  for (std::size_t i = 0; i < gpus; ++i) {
    hardware.gpus.push_back({"NVIDIA H200", 1 << 30, ""});
  }
  for (int cpu = 0; cpu < cores; ++cpu) {
    hardware.cpus.push_back(cpu);
  }
  hardware.cores = cores;
  return hardware;
}

struct Flag {
  const char* name;
  const char* text;
};

Settings complete(
    std::initializer_list<Flag> flags,
    const Hardware& hardware,
    std::map<std::string, std::string> variables = {}) {
  Settings settings;
  const Environment environment(std::move(variables));
  settings.apply(environment);
  for (const Flag& flag : flags) {
    settings.apply_flag(*find_setting(flag.name), flag.text, flag.name);
  }
  complete_settings(settings, hardware, environment);
  return settings;
}

LaunchPlan plan_for(
    Settings settings,
    const Hardware& hardware,
    std::map<std::string, std::string> variables = {}) {
  LaunchPlan plan;
  plan.settings = std::move(settings);
  plan.hardware = hardware;
  plan.environment = Environment(std::move(variables));
  plan.argv = {"/bin/true"};
  return plan;
}

Generation generation_of(const LaunchPlan& plan) {
  Generation generation;
  generation.shape = JobShape::of(plan.settings);
  return generation;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CompleteSettings, UsesTheGpusItFinds) {
  const Hardware hardware = make_hardware(2, 16);

  const Settings settings = complete({}, hardware);

  EXPECT_EQ(settings.integer("num_processes"), 2);
  EXPECT_EQ(settings.text("distributed_type"), "MULTI_GPU");
  EXPECT_EQ(settings.integer("num_cpu_threads_per_process"), 8);
  EXPECT_EQ(settings.origin("num_processes").text(), "found: 2 × NVIDIA H200");
  EXPECT_EQ(
      describe_choice(settings, hardware),
      "Found 2 × NVIDIA H200: 2 processes, 8 threads each");
}

TEST(CompleteSettings, CpuProcessesShareTheCores) {
  const Settings settings = complete(
      {{"use_cpu", "1"}, {"num_processes", "3"}}, make_hardware(2, 16));

  EXPECT_EQ(settings.text("distributed_type"), "MULTI_CPU");
  EXPECT_EQ(settings.integer("num_cpu_threads_per_process"), 5);
  EXPECT_EQ(
      complete({{"num_processes", "9"}}, make_hardware(0, 2))
          .integer("num_cpu_threads_per_process"),
      1);
}

TEST(CompleteSettings, RejectsWhatThisMachineCannotRun) {
  EXPECT_EQ(
      error_of([] { complete({{"gpu_ids", "0,5"}}, make_hardware(2, 4)); }),
      "`gpu_ids` (gpu_ids) lists GPU `5`, but this machine has 2 × NVIDIA "
      "H200");
  EXPECT_EQ(
      error_of([] {
        complete(
            {{"num_machines", "2"}, {"num_processes", "3"}},
            make_hardware(0, 4));
      }),
      "`num_processes` is 3 (num_processes), but must be a multiple of "
      "`num_machines`, which is 2");
}

TEST(WorkerVariables, FollowTorchrun) {
  const Hardware hardware = make_hardware(0, 4);
  const LaunchPlan plan = plan_for(
      complete(
          {{"num_processes", "8"},
           {"num_machines", "2"},
           {"machine_rank", "1"},
           {"use_cpu", "1"},
           {"max_restarts", "3"},
           {"debug", "1"}},
          hardware),
      hardware);
  Generation generation = generation_of(plan);
  generation.main_address = "10.0.0.1";
  generation.main_port = "1234";
  generation.number = 2;

  auto variables = worker_variables(plan, generation, 1);

  EXPECT_EQ(variables["RANK"], "5");
  EXPECT_EQ(variables["LOCAL_RANK"], "1");
  EXPECT_EQ(variables["WORLD_SIZE"], "8");
  EXPECT_EQ(variables["LOCAL_WORLD_SIZE"], "4");
  EXPECT_EQ(variables["GROUP_RANK"], "1");
  EXPECT_EQ(variables["GROUP_WORLD_SIZE"], "2");
  EXPECT_EQ(variables["ROLE_RANK"], "5");
  EXPECT_EQ(variables["MASTER_ADDR"], "10.0.0.1");
  EXPECT_EQ(variables["MASTER_PORT"], "1234");
  EXPECT_EQ(variables["TORCHELASTIC_RESTART_COUNT"], "2");
  EXPECT_EQ(variables["TORCHELASTIC_MAX_RESTARTS"], "3");
  EXPECT_EQ(variables["ACCELERATE_DEBUG_MODE"], "true");
  EXPECT_EQ(variables["ACCELERATE_USE_CPU"], "True");
  EXPECT_EQ(variables.count("GLOO_SOCKET_IFNAME"), 0U) << "two machines";
}

// Machine 0 assigned a rank that differs from the settings of this machine.
TEST(WorkerCommands, UseTheMachineRankOfTheGeneration) {
  const Hardware hardware = make_hardware(0, 4);
  LaunchPlan plan = plan_for(
      complete(
          {{"num_processes", "6"}, {"num_machines", "3"}, {"use_cpu", "1"}},
          hardware),
      hardware);
  plan.files = {"/run", "/logs"};
  Generation generation;
  generation.shape = JobShape::of(plan.settings).on_machine(2);

  const auto commands = make_worker_commands(plan, generation);

  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(commands[1].rank, 5);
  EXPECT_EQ(commands[1].environment.at("RANK"), "5");
  EXPECT_EQ(commands[1].environment.at("GROUP_RANK"), "2");
  EXPECT_EQ(commands[1].error_file, "/run/rank_5.error.json");
  EXPECT_EQ(
      commands[1].environment.at("TORCHELASTIC_ERROR_FILE"),
      commands[1].error_file);
  EXPECT_EQ(commands[1].progress_file, "/run/rank_5.step");
  EXPECT_EQ(
      commands[1].environment.at("ACCELERATE_PROGRESS_FILE"),
      commands[1].progress_file);
  EXPECT_EQ(commands[1].log_pattern, "/logs/rank_5.*.log");
}

TEST(WorkerCommands, SetNoRankForOneProcess) {
  const Hardware hardware = make_hardware(0, 4);
  const LaunchPlan plan = plan_for(
      complete({}, hardware),
      hardware,
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"KEEP", "me"}});

  const auto commands = make_worker_commands(plan, generation_of(plan));

  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].environment.count("RANK"), 0U);
  EXPECT_EQ(commands[0].environment.count("WORLD_SIZE"), 0U);
  EXPECT_EQ(commands[0].environment.at("KEEP"), "me");
}

TEST(CpusOfWorker, AreSharedEqually) {
  const Hardware hardware = make_hardware(0, 5);
  const Settings two = complete({{"num_processes", "2"}}, hardware);
  const Settings nine = complete({{"num_processes", "9"}}, hardware);

  EXPECT_EQ(cpus_of_worker(two, hardware, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(cpus_of_worker(two, hardware, 1), (std::vector<int>{2, 3, 4}));
  EXPECT_TRUE(cpus_of_worker(nine, hardware, 1).empty());
}

// A scheduler assigned GPUs 2 and 3 of the machine to this job.
TEST(GpuIds, CountOnlyVisibleGpus) {
  Hardware hardware = make_hardware(2, 4);
  hardware.gpus[1].name = "second";
  const Settings settings = complete({{"gpu_ids", "1"}}, hardware);
  const auto exported = [&](std::map<std::string, std::string> inherited) {
    const LaunchPlan plan = plan_for(settings, hardware, std::move(inherited));
    return worker_variables(plan, generation_of(plan), 0)
        .at("CUDA_VISIBLE_DEVICES");
  };

  EXPECT_EQ(exported({{"CUDA_VISIBLE_DEVICES", "2, 3"}}), "3");
  EXPECT_EQ(exported({}), "1");
  ASSERT_EQ(gpus_in_use(settings, hardware).size(), 1U);
  EXPECT_EQ(gpus_in_use(settings, hardware)[0].name, "second");
}

// Ranks 0 and 1 have GPUs 0 and 1; then each GPU gets a second rank, which NCCL
// takes for a rank on another machine.
TEST(RanksPerGpu, GivesRanksOnOneGpuDifferentNcclIds) {
  const Hardware hardware = make_hardware(2, 4);
  const Settings settings = complete({{"ranks_per_gpu", "2"}}, hardware);
  LaunchPlan plan = plan_for(settings, hardware, {});
  plan.launch_id = "launch";
  const auto nccl_id = [&](std::int64_t local_rank) {
    const auto variables =
        worker_variables(plan, generation_of(plan), local_rank);
    EXPECT_EQ(variables.at("ACCELERATE_RANKS_PER_GPU"), "2");
    return variables.at("NCCL_HOSTID");
  };

  EXPECT_EQ(settings.integer("num_processes"), 4);
  EXPECT_EQ(nccl_id(0), "launch-0-0");
  EXPECT_EQ(nccl_id(1), "launch-0-0");
  EXPECT_EQ(nccl_id(2), "launch-0-1");
  EXPECT_EQ(nccl_id(3), "launch-0-1");
}

std::map<std::string, std::string> nccl_variables(
    const char* gpu,
    const char* driver,
    std::map<std::string, std::string> outer = {}) {
  Hardware hardware = make_hardware(2, 4);
  hardware.gpus[1].name = gpu;
  hardware.driver_version = driver;
  const LaunchPlan plan =
      plan_for(complete({}, hardware), hardware, std::move(outer));
  auto variables = worker_variables(plan, generation_of(plan), 0);
  std::erase_if(variables, [](const auto& entry) {
    return !entry.first.ends_with("_DISABLE");
  });
  return variables;
}

TEST(WorkerVariables, DisableBrokenNcclPeerAccess) {
  using Variables = std::map<std::string, std::string>;
  const Variables both = {{"NCCL_IB_DISABLE", "1"}, {"NCCL_P2P_DISABLE", "1"}};
  const char* gpu = "NVIDIA GeForce RTX 4090";

  EXPECT_EQ(nccl_variables(gpu, "545.23.08"), both);
  EXPECT_EQ(nccl_variables(gpu, "550.40.06"), both);
  EXPECT_EQ(nccl_variables(gpu, "550.40.07"), Variables());
  EXPECT_EQ(nccl_variables(gpu, ""), Variables());
  EXPECT_EQ(nccl_variables("NVIDIA H200", "545.23.08"), Variables());
  EXPECT_EQ(
      nccl_variables(gpu, "545.23.08", {{"NCCL_P2P_DISABLE", "0"}}),
      (Variables{{"NCCL_IB_DISABLE", "1"}}));
}

using Variables = std::map<std::string, std::string>;

// What `srun --nodes 2 --ntasks-per-node 1` sets on the second node.
Variables two_nodes() {
  return {
      {"SLURM_JOB_ID", "123456"},
      {"SLURM_JOB_NUM_NODES", "4"},
      {"SLURM_JOB_NODELIST", "gpu[06-09]"},
      {"SLURM_STEP_ID", "1"},
      {"SLURM_STEP_NUM_NODES", "2"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_STEP_NODELIST", "gpu[07-08]-ib"},
      {"SLURM_NODEID", "1"}};
}

void expect_second_of_two_nodes(const Settings& settings) {
  EXPECT_EQ(settings.integer("num_machines"), 2);
  EXPECT_EQ(settings.integer("machine_rank"), 1);
  EXPECT_EQ(settings.text("main_process_ip"), "gpu07-ib");
  EXPECT_FALSE(settings.has("main_process_port"));
}

TEST(Slurm, SetsTheMachines) {
  const Settings settings = complete({}, make_hardware(4, 8), two_nodes());

  expect_second_of_two_nodes(settings);
  EXPECT_EQ(settings.integer("num_processes"), 8);
  EXPECT_EQ(settings.origin("machine_rank").text(), "found: SLURM_NODEID");
}

TEST(Slurm, SetsTheRestWhenTheNumberOfMachinesMatches) {
  const Settings settings =
      complete({{"num_machines", "2"}}, make_hardware(4, 8), two_nodes());

  expect_second_of_two_nodes(settings);
  EXPECT_EQ(settings.origin("num_machines").text(), "num_machines");
}

// The file that `accelerate config default` writes on one of the nodes.
TEST(Slurm, UsesAFileForOneMachineOnEachNode) {
  const Hardware hardware = make_hardware(4, 8);
  Settings first = complete({}, hardware);
  Settings settings;
  apply_config_text(
      settings,
      python_file_text(first, "c.yaml"),
      "c.yaml",
      SettingFile::python);

  complete_settings(settings, hardware, Environment(two_nodes()));

  expect_second_of_two_nodes(settings);
  EXPECT_EQ(settings.integer("num_processes"), 8);
}

TEST(Slurm, UsesAFileForOneProcessOnEachNode) {
  Settings settings;
  apply_config_text(
      settings,
      "distributed_type: 'NO'\nnum_machines: 1\nnum_processes: 1\n"
      "machine_rank: 0\nuse_cpu: true\n",
      "c.yaml",
      SettingFile::python);

  complete_settings(settings, make_hardware(0, 2), Environment(two_nodes()));

  expect_second_of_two_nodes(settings);
  EXPECT_EQ(settings.integer("num_processes"), 2);
  EXPECT_EQ(settings.text("distributed_type"), "MULTI_CPU");
}

TEST(Slurm, RejectsAnotherNumberOfMachines) {
  EXPECT_EQ(
      error_of([] {
        complete({{"num_machines", "3"}}, make_hardware(1, 8), two_nodes());
      }),
      "`num_machines` is 3 (num_machines), but Slurm provides 2 nodes "
      "(SLURM_STEP_NUM_NODES)");
}

TEST(Slurm, IsIgnoredWithOneMachineOnTheCommandLine) {
  const Settings settings =
      complete({{"num_machines", "1"}}, make_hardware(1, 8), two_nodes());

  EXPECT_EQ(settings.integer("num_machines"), 1);
  EXPECT_EQ(settings.integer("machine_rank"), 0);
}

// `srun --exact --nodes 1 …` in a job with more nodes.
TEST(Slurm, AStepOnOneNodeIsOneMachine) {
  Variables variables = two_nodes();
  variables["SLURM_STEP_NUM_NODES"] = "1";
  variables["SLURM_STEP_NUM_TASKS"] = "1";
  variables["SLURM_STEP_NODELIST"] = "gpu08";
  variables["SLURM_NODEID"] = "0";

  const Settings settings = complete({}, make_hardware(4, 8), variables);

  EXPECT_EQ(settings.integer("num_machines"), 1);
  EXPECT_EQ(settings.integer("num_processes"), 4);
  EXPECT_FALSE(settings.has("main_process_ip"));
}

// The user starts one such step per node and sets the machine ranks.
TEST(Slurm, AStepOnOneNodeKeepsTheMachinesOfTheUser) {
  Variables variables = two_nodes();
  variables["SLURM_STEP_NUM_NODES"] = "1";
  const Settings settings = complete(
      {{"num_machines", "2"},
       {"machine_rank", "1"},
       {"main_process_ip", "gpu07"}},
      make_hardware(0, 8),
      variables);

  const MainAddress main = main_address(settings, Environment(variables));

  EXPECT_EQ(settings.integer("machine_rank"), 1);
  EXPECT_EQ(main.ports, std::vector<std::uint16_t>{29500});
  EXPECT_EQ(main.job, "") << "the machines are in different steps";
}

TEST(Slurm, MachinesOfAStepMeetAtItsPorts) {
  const Settings settings = complete({}, make_hardware(0, 8), two_nodes());

  const MainAddress main = main_address(settings, Environment(two_nodes()));

  EXPECT_EQ(main.address, "gpu07-ib");
  EXPECT_EQ(main.ports, (SlurmStep{123456, 1}.ports()));
  EXPECT_EQ(main.job, "step 1 of Slurm job 123456");
  EXPECT_EQ(main.program_port(), 0) << "any free port";
}

TEST(Slurm, TheUsersPortIsTheOnlyOne) {
  const Settings settings = complete(
      {{"main_process_port", "4242"}}, make_hardware(0, 8), two_nodes());

  const MainAddress main = main_address(settings, Environment(two_nodes()));

  EXPECT_EQ(main.ports, std::vector<std::uint16_t>{4242});
  EXPECT_EQ(main.program_port(), 4243);
  EXPECT_EQ(main.text(), "gpu07-ib:4242");
  EXPECT_EQ(main.job, "step 1 of Slurm job 123456");
}

std::string slurm_error(const char* name, const char* value) {
  Variables variables = two_nodes();
  variables[name] = value;
  return error_of([&] { complete({}, make_hardware(0, 8), variables); });
}

TEST(Slurm, RefusesVariablesThatAreMissingOrContradictory) {
  const std::string missing = "environment variable SLURM_STEP_ID is `1`, but ";
  for (const char* name :
       {"SLURM_STEP_NUM_NODES", "SLURM_NODEID", "SLURM_STEP_NODELIST"}) {
    EXPECT_EQ(slurm_error(name, ""), missing + name + " is not set");
  }
  EXPECT_EQ(
      slurm_error("SLURM_NODEID", "2"),
      "environment variable SLURM_NODEID is `2`, but must be less than "
      "SLURM_STEP_NUM_NODES, which is `2`");
  EXPECT_EQ(
      slurm_error("SLURM_STEP_NODELIST", "gpu[07-09]"),
      "environment variable SLURM_STEP_NODELIST is `gpu[07-09]`, a list of 3 "
      "nodes, but SLURM_STEP_NUM_NODES is `2`");
}

std::string launch_error(const Variables& variables) {
  return error_of(
      [&] { check_slurm_launch(Settings(), Environment(variables)); });
}

TEST(Slurm, EveryNodeHasOneLauncher) {
  Variables variables = two_nodes();
  check_slurm_launch(Settings(), Environment(variables));

  variables["SLURM_STEP_NUM_TASKS"] = "4";
  const std::string text = launch_error(variables);

  // The result is the same for launchers that are the only launcher on their
  // node.
  EXPECT_EQ(
      text,
      "`srun` started 4 launchers on 2 nodes, but each node needs only one "
      "launcher, which starts all workers on the node");
  Settings alone;
  alone.apply_flag(*find_setting("num_machines"), "1", "--num_machines");
  check_slurm_launch(alone, Environment(variables));
}

TEST(Slurm, ABatchScriptOnSeveralNodesNeedsSrun) {
  const Variables batch = {
      {"SLURM_JOB_ID", "7"},
      {"SLURM_JOB_NUM_NODES", "2"},
      {"SLURM_JOB_NODELIST", "n[1-2]"},
      {"SLURM_NODEID", "0"}};

  EXPECT_EQ(
      launch_error(batch),
      "this Slurm job has 2 nodes, but `srun` did not start this launcher, so "
      "it runs on only one node");
  // The user starts the other machines without Slurm.
  Settings numbered;
  numbered.apply_flag(*find_setting("num_machines"), "2", "--num_machines");
  check_slurm_launch(numbered, Environment(batch));
  check_slurm_launch(
      Settings(),
      Environment(
          Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}}));
}

// `mpirun` starts processes on all nodes from the batch script.
TEST(Slurm, MpirunUsesTheNodesOfTheJob) {
  const Variables batch = {
      {"SLURM_JOB_ID", "7"},
      {"SLURM_JOB_NUM_NODES", "2"},
      {"SLURM_JOB_NODELIST", "n[1-2]"}};
  Settings settings;
  settings.apply_flag(
      *find_setting("mpirun_hostfile"), "hosts", "--mpirun_hostfile");

  check_slurm_launch(settings, Environment(batch));
  apply_slurm(settings, Environment(batch));

  EXPECT_EQ(settings.integer("num_machines"), 2);
  EXPECT_EQ(settings.text("main_process_ip"), "n1");
}

TEST(CpuList, ReadsRanges) {
  EXPECT_EQ(parse_cpu_list("0-2,5\n"), (std::vector<int>{0, 1, 2, 5}));
  EXPECT_TRUE(parse_cpu_list("x,-1,").empty());
}

}  // namespace
}  // namespace accelerate
