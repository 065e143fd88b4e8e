// SPDX-License-Identifier: Apache-2.0
// `accelerate config` on a terminal and without one.
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

#include <poll.h>
#include <sys/wait.h>

#include <pty.h>

#include "cli_environment.h"

namespace accelerate::test {
namespace {

class Config : public CliTest {
 protected:
  std::string path() const {
    return home_ + "/.cache/huggingface/accelerate/default_config.yaml";
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::string line_of(const std::string& text, const std::string& key) {
    const auto at = text.find(key + ":");
    return at == std::string::npos ? ""
                                   : text.substr(at, text.find('\n', at) - at);
  }
};

TEST_F(Config, ReadsAnswersFromAPipe) {
  auto options = shell("accelerate config");
  options.input = "\nmany\n3\nbf16\n";

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(line_of(read(path()), "num_processes"), "num_processes: 3");
  EXPECT_EQ(line_of(read(path()), "mixed_precision"), "mixed_precision: bf16");
  EXPECT_EQ(
      line_of(read(path()), "distributed_type"), "distributed_type: MULTI_CPU");
  EXPECT_NE(
      result.err.find("the answer is `many`, but must be a whole number"),
      std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find(
          "Machines:   1\nProcesses:  3 on the CPU\nPrecision:  bf16, weights "
          "in float32\nSaved " +
          path() + "\nNext: accelerate launch ./train\n"),
      std::string::npos)
      << result.err;
}

TEST_F(Config, UsesTheDefaultsAtTheEndOfInput) {
  const auto result = run("accelerate config < /dev/null");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(line_of(read(path()), "num_processes"), "num_processes: 1");
}

TEST_F(Config, OverwritesOnlyWithTheFlag) {
  run("accelerate config default");
  const std::string before = read(path());

  const auto refused = run("accelerate config default --mixed_precision bf16");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(read(path()), before);
  const auto done =
      run("accelerate config default --mixed_precision bf16 --overwrite");

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(line_of(read(path()), "mixed_precision"), "mixed_precision: bf16");
}

// All configurations in a folder share one accelerate_cpp.yaml.
TEST_F(Config, OverwritesAccelerateCppYamlOnlyWithTheFlag) {
  std::ofstream(home_ + "/accelerate_cpp.yaml") << "max_restarts: 2\n";

  const auto refused =
      run("accelerate config default --config_file $HOME/b.yaml");
  const std::string kept = read(home_ + "/accelerate_cpp.yaml");
  const auto done =
      run("accelerate config default --overwrite --config_file $HOME/b.yaml");

  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(
      refused.err,
      "error: " + home_ +
          "/accelerate_cpp.yaml already exists and would be overwritten\n\n"
          "hint: add `--overwrite`, or write to another folder\n");
  EXPECT_EQ(kept, "max_restarts: 2\n");
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_FALSE(std::filesystem::exists(home_ + "/accelerate_cpp.yaml"));
}

TEST_F(Config, UpdateKeepsOtherSettings) {
  run("accelerate config default --mixed_precision fp16 --max_restarts 2");

  const auto result = run("accelerate config update --num_processes 4");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(line_of(read(path()), "mixed_precision"), "mixed_precision: fp16");
  EXPECT_EQ(line_of(read(path()), "num_processes"), "num_processes: 4");
  EXPECT_EQ(
      read(home_ + "/.cache/huggingface/accelerate/accelerate_cpp.yaml"),
      "max_restarts: 2\n");
}

TEST_F(Config, WritesJsonForAJsonFileName) {
  run("accelerate config default --config_file $HOME/c.json");

  EXPECT_EQ(read(home_ + "/c.json").substr(0, 2), "{\n");
  EXPECT_EQ(
      run("accelerate launch --config_file $HOME/c.json true").exit_code, 0);
}

TEST_F(Config, LaunchUsesTheSavedFile) {
  run("accelerate config default --cpu --num_processes 2");

  const auto result = run("accelerate launch sh -c 'echo $WORLD_SIZE'");

  EXPECT_EQ(result.out.substr(0, 2), "2\n") << result.err;
  EXPECT_EQ(
      result.err,
      "Settings from " + home_ +
          "/.cache/huggingface/accelerate/default_config.yaml\n")
      << "the file sets everything, so nothing is detected";
}

// `--cpu` overrides the device settings in the file and keeps all other
// settings.
TEST_F(Config, LaunchKeepsTheSavedFileWithCpu) {
  run("accelerate config default --cpu --num_processes 3");
  std::ofstream(home_ + "/gpus.yaml")
      << "distributed_type: MULTI_GPU\ngpu_ids: 0,1\nnum_processes: 2\n";

  const std::string program = "sh -c 'touch $HOME/$WORLD_SIZE.$RANK'";
  EXPECT_EQ(run("accelerate launch --cpu " + program).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(home_ + "/3.2"));
  const auto result =
      run("accelerate launch --config_file $HOME/gpus.yaml --cpu " + program);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(home_ + "/2.1"));
  const std::string explained =
      run("accelerate explain --cpu | grep -E '^(num_proc|use_cpu)'").out;
  EXPECT_NE(explained.find("default_config.yaml:"), std::string::npos)
      << explained;
  EXPECT_NE(explained.find("--cpu"), std::string::npos) << explained;
}

// A folder of another user, with a configuration file and a file that contains
// the path of a compiler.
TEST_F(Config, AcceptsACompilerOnlyFromTheUsersOwnFolder) {
  std::ofstream(home_ + "/train.cpp") << "int main() {}\n";
  std::ofstream(home_ + "/toolchain.json")
      << R"({"compiler": ")" << ACCELERATE_COMPILER << R"(", "flags": []})";
  const std::string toolchain =
      "export ACCELERATE_TOOLCHAIN=$HOME/toolchain.json; ";
  const std::string setup =
      "own=$HOME/.cache/huggingface/accelerate; mkdir -p $HOME/foreign $own; "
      "printf '#!/bin/sh\necho planted\nexit 1\n' > $HOME/evil; "
      "chmod 755 $HOME/evil; printf \"role: r\\ncxx: $HOME/evil\\n\" > "
      "$HOME/foreign/accelerate_cpp.yaml; "
      "echo 'num_processes: 1' > $HOME/foreign/config.yaml; ";
  const std::string launch =
      "accelerate launch --config_file $HOME/foreign/config.yaml --cpu "
      "$HOME/train.cpp";

  const auto foreign = run(toolchain + setup + launch);
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_EQ(foreign.err.find("planted"), std::string::npos) << foreign.err;
  EXPECT_NE(
      foreign.err.find(
          home_ + "/foreign/accelerate_cpp.yaml:2: `cxx` chooses a program to "
                  "run, so it is not accepted here: the file is not in your "
                  "own configuration folder"),
      std::string::npos)
      << foreign.err;

  const auto link =
      run("ln -s $HOME/foreign $HOME/linked; "
          "accelerate launch --config_file $HOME/linked/config.yaml true");
  EXPECT_EQ(link.exit_code, 2) << link.err;

  const auto other_settings = run(
      toolchain + "sed -i /cxx/d $HOME/foreign/accelerate_cpp.yaml; " + launch);
  EXPECT_EQ(other_settings.exit_code, 0) << other_settings.err;
  EXPECT_EQ(
      other_settings.err.rfind(
          "Settings from " + home_ + "/foreign/config.yaml and " + home_ +
              "/foreign/accelerate_cpp.yaml\n",
          0),
      0U)
      << other_settings.err;

  const auto own = run(
      toolchain +
      "cd $HOME/.cache/huggingface/accelerate; umask 002; rm -f "
      "accelerate_cpp.yaml; accelerate config default --cpu --cxx $HOME/evil; "
      "accelerate launch $HOME/train.cpp");
  EXPECT_NE(own.err.find("planted"), std::string::npos) << own.err;

  const auto writable =
      run(toolchain +
          "chmod o+w $HOME/.cache/huggingface/accelerate/accelerate_cpp.yaml; "
          "accelerate launch $HOME/train.cpp");
  EXPECT_EQ(writable.exit_code, 2);
  EXPECT_NE(
      writable.err.find("other users can write to the file"), std::string::npos)
      << writable.err;
}

TEST_F(Config, DoesNotSaveACompilerThatLaunchWouldRefuse) {
  const auto result =
      run("accelerate config default --cxx g++ --config_file $HOME/x/c.yaml");

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(
      result.err.find("`--cxx` can be saved only in " + home_),
      std::string::npos)
      << result.err;
  EXPECT_FALSE(std::filesystem::exists(home_ + "/x/c.yaml"));
}

TEST_F(Config, AcceptsArrowKeysOnATerminal) {
  auto variables = environment();
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) {
    entries.push_back(name + "=" + value);
  }
  std::vector<char*> pointers;
  for (auto& entry : entries) {
    pointers.push_back(entry.data());
  }
  pointers.push_back(nullptr);
  int terminal = -1;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid == 0) {
    ::execle(
        (std::string(ACCELERATE_BIN) + "/accelerate").c_str(),
        "accelerate",
        "config",
        nullptr,
        pointers.data());
    ::_exit(127);
  }
  std::string seen;
  // Types each answer when its question is on the screen.
  std::vector<std::pair<std::string, std::string>> script = {
      {"(--num_machines) [1]", "\n"},
      {"(--num_processes) [1]", "2\n"},
      {"> no", "\x1b[B\x1b[B\x1b[A\x1b[B\r"}};
  std::size_t step = 0;
  for (int i = 0; i < 2000; ++i) {
    pollfd entry{terminal, POLLIN, 0};
    ::poll(&entry, 1, 10);
    char buffer[4096];
    const ssize_t got = (entry.revents & (POLLIN | POLLHUP)) != 0
                            ? ::read(terminal, buffer, sizeof(buffer))
                            : 0;
    if (got < 0) {
      break;  // The program has closed its terminal.
    }
    seen.append(buffer, static_cast<std::size_t>(got));
    if (step < script.size() &&
        seen.find(script[step].first) != std::string::npos) {
      const std::string& keys = script[step++].second;
      ASSERT_GT(::write(terminal, keys.data(), keys.size()), 0);
    }
  }
  ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::close(terminal);

  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << seen;
  EXPECT_NE(
      seen.find("Mixed precision? (--mixed_precision) [no] (arrow keys"),
      std::string::npos)
      << seen;
  EXPECT_NE(
      seen.find("Mixed precision? (--mixed_precision) bf16"), std::string::npos)
      << seen;
  EXPECT_EQ(line_of(read(path()), "mixed_precision"), "mixed_precision: bf16");
  EXPECT_EQ(line_of(read(path()), "num_processes"), "num_processes: 2");
}

}  // namespace
}  // namespace accelerate::test
