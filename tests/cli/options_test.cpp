// SPDX-License-Identifier: Apache-2.0
// The effect of single options on the program that is launched.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli_environment.h"

namespace accelerate::test {
namespace {

class Options : public CliTest {
 protected:
  // Uses the search path of this test, which includes Python.
  CommandResult run_python(const std::string& line) const {
    auto options = shell(line);
    const char* path = std::getenv("PATH");
    options.environment["PATH"] = std::string(ACCELERATE_BIN) + ":" + path;
    return run_command(options);
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(Options, ModuleRunsAPythonModule) {
  std::ofstream(home_ + "/some_module.py")
      << "import sys\nprint(__name__, sys.argv[1:])\n";

  const auto result =
      run_python("cd $HOME && accelerate launch --cpu -m some_module --lr 1");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "__main__ ['--lr', '1']\n");
}

TEST_F(Options, NoPythonRunsAPyFileDirectly) {
  std::ofstream(home_ + "/script.py") << "#!/bin/sh\necho a shell: $1\n";

  const auto result =
      run("chmod +x $HOME/script.py; accelerate launch --cpu --no_python "
          "$HOME/script.py word");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "a shell: word\n");
}

TEST_F(Options, RoleSetsRoleName) {
  const auto result =
      run("accelerate launch --cpu --num_processes 2 --role trainer sh -c "
          "'echo role=$ROLE_NAME'");

  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
  EXPECT_TRUE(has(result.out, "role=trainer\n")) << result.out;
}

// Covers the names of files and programs, and text from other machines.
TEST_F(Options, NoMessageContainsControlCharacters) {
  const std::string name = R"($(printf 'x\033]0;title\007\302\2332J'))";

  for (const std::string& command :
       {"launch ./" + name,
        "launch --config_file " + name + " true",
        "explain " + name,
        "checkpoint verify " + name,
        "help " + name}) {
    const auto result = run("accelerate " + command);

    EXPECT_TRUE(has(result.out + result.err, "\\x1b]0;title\\x07\\xc2\\x9b2J"))
        << command << "\n"
        << result.out << result.err;
    EXPECT_FALSE(has(result.out + result.err, "\x1b")) << command;
    EXPECT_FALSE(has(result.out + result.err, "\xc2\x9b")) << command;
  }
}

TEST_F(Options, WorkersKeepTheirColors) {
  const auto result =
      run(R"(accelerate launch --cpu sh -c "printf '\033[31mred\033[0m\n'")");

  EXPECT_EQ(result.out, "\x1b[31mred\x1b[0m\n");
}

TEST_F(Options, TeeSelectsTheStreamsToWrite) {
  const auto files = [&](const std::string& tee) {
    return run("accelerate launch -q --cpu --log_dir $HOME/" + tee + " --tee " +
               tee +
               " sh -c 'echo out; echo err >&2' > /dev/null 2>&1; cd $HOME/" +
               tee + "/* && cat *; ls")
        .out;
  };

  EXPECT_EQ(files("1"), "out\nrank_0.stdout.log\n");
  EXPECT_EQ(files("2"), "err\nrank_0.stderr.log\n");
  EXPECT_EQ(files("3"), "err\nout\nrank_0.stderr.log\nrank_0.stdout.log\n");
}

TEST_F(Options, DebugShowsTheEnvironmentButNoSecret) {
  const auto result =
      run("accelerate launch --cpu --num_processes 2 --debug sh -c 'echo "
          "debug=$ACCELERATE_DEBUG_MODE; echo $ACCELERATE_STORE_SECRET > "
          "$HOME/secret$RANK'; cat $HOME/secret0");

  const std::string secret =
      result.out.substr(result.out.rfind('\n', result.out.size() - 2) + 1, 64);
  EXPECT_TRUE(has(result.out, "debug=true\n")) << result.out;
  EXPECT_TRUE(has(result.err, "environment of rank 0:\n")) << result.err;
  EXPECT_TRUE(has(result.err, "environment of rank 1:\n")) << result.err;
  EXPECT_TRUE(has(result.err, "  ACCELERATE_STORE_SECRET=(hidden)\n"));
  EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_FALSE(has(result.err, secret));
}

constexpr const char* kEnvironment =
    "ACCELERATE_JOB_SECRET=0123456789abcdef NCCL_DEBUG=INFO "
    "HF_TOKEN=hf_private "
    "PASSWORD=private ";

TEST_F(Options, EnvShowsTheSystemButNoSecret) {
  const auto result =
      run(std::string("accelerate config default --cpu; ") + kEnvironment +
          "accelerate env");

  for (const char* part :
       {"- accelerate: accelerate-cpp ",
        "\n- libtorch: ",
        "\n- compiler: ",
        "\n- platform: Linux ",
        "\n- cpu: ",
        "\n- cores: ",
        "\n- memory: ",
        "\n- gpus: none\n",
        "\n- driver: ",
        "\n- environment:\n",
        "\n  - ACCELERATE_JOB_SECRET=(hidden)\n",
        "\n  - NCCL_DEBUG=INFO\n",
        "\n- config: ",
        "```yaml\ncompute_environment: LOCAL_MACHINE\n"}) {
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  }
  EXPECT_FALSE(has(result.out, "0123456789abcdef"));
  EXPECT_FALSE(has(result.out, "private"));
}

TEST_F(Options, EnvAsJsonHasTheSameKeys) {
  const auto result = run(std::string(kEnvironment) + "accelerate env --json");

  for (const char* key :
       {"accelerate",
        "libtorch",
        "compiler",
        "platform",
        "cpu",
        "cores",
        "memory",
        "gpus",
        "driver",
        "environment",
        "config"}) {
    EXPECT_TRUE(has(result.out, std::string("\n  \"") + key + "\": "))
        << key << "\n"
        << result.out;
  }
  EXPECT_TRUE(has(result.out, "\"ACCELERATE_JOB_SECRET\": \"(hidden)\""));
  EXPECT_FALSE(has(result.out, "0123456789abcdef"));
  EXPECT_FALSE(has(result.out, "private"));
}

}  // namespace
}  // namespace accelerate::test
