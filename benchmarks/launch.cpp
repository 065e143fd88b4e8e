// SPDX-License-Identifier: Apache-2.0
// Times the command line, compared with starting Python.
//
//     build/bin/benchmarks/launch [--json] [--quick]
//
// Runs the `accelerate` in the build's bin folder. The baseline is `python3 -c
// pass` in the same run, or the program without a launcher.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str_cat.h"
#include "base/text.h"
#include "config/config_file.h"
#include "support/arguments.h"
#include "support/report.h"

namespace accelerate::benchmarks {
namespace {

namespace fs = std::filesystem;

// Runs a command without output; exits the benchmark when it fails.
void run(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  int status = 1;
  if (::posix_spawnp(
          &pid, pointers[0], &actions, nullptr, pointers.data(), environ) ==
      0) {
    ::waitpid(pid, &status, 0);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (status != 0) {
    std::cerr << join(arguments, " ") << " failed\n";
    std::exit(1);
  }
}

fs::path folder_of_this_binary() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

fs::path find_program(const fs::path& folder, const std::string& name) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == name && entry.is_regular_file()) {
      return entry.path();
    }
  }
  std::exit(1);
}

// Compiles a program with this installation's compiler and flags, and launches
// it from its source and directly.
void bench_source(
    const Report& report, const std::string& accelerate, int repeats) {
  const fs::path folder =
      fs::temp_directory_path() / str_cat("launch-bench-", ::getpid());
  fs::create_directories(folder);
  const std::string source = (folder / "one.cpp").string();
  std::ofstream(source) << "int main() { return 0; }\n";
  ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  ::unsetenv("ACCELERATE_TOOLCHAIN");
  const auto launch = [&](const std::string& program) {
    run({accelerate, "launch", "--cpu", program});
  };
  launch(source);  // Compiles.
  const std::string program =
      find_program(folder / "accelerate-cpp", "one").string();
  const double compiled = seconds_of(repeats, [&] { launch(program); });
  report.add(
      {"second launch of a .cpp vs. its compiled program",
       seconds_of(repeats, [&] { launch(source); }),
       compiled});
  fs::remove_all(folder);
}

void bench(const Report& report, int repeats) {
  const std::string accelerate =
      (folder_of_this_binary().parent_path() / "accelerate").string();
  const auto time = [&](const std::vector<std::string>& arguments) {
    return seconds_of(repeats, [&] { run(arguments); });
  };
  const double python = time({"python3", "-c", "pass"});
  report.add({"launch --help", time({accelerate, "launch", "--help"}), python});

  const std::string text =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\n"
      "num_processes: 2\nmixed_precision: bf16\nuse_cpu: true\n";
  const double load = seconds_of(repeats, [&] {
    Settings settings;
    apply_config_text(settings, text, "c.yaml", SettingFile::python);
  });
  report.add({"load a configuration", load, python});

  const double bare = time({"/bin/true"});
  report.add(
      {"launch 2 workers vs. the program alone",
       time(
           {accelerate,
            "launch",
            "--cpu",
            "--num_processes",
            "2",
            "/bin/true"}),
       bare});
  report.add(
      {"launch 64 workers vs. python3",
       time(
           {accelerate,
            "launch",
            "--cpu",
            "--num_processes",
            "64",
            "/bin/true"}),
       python});

  bench_source(report, accelerate, repeats);
}

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "launch [--json] [--quick]\n\n"
               "Times the command line, compared with starting Python."});
  const Report report(has_flag(argc, argv, "--json"));
  bench(report, has_flag(argc, argv, "--quick") ? 3 : 21);
  return 0;
}
