// SPDX-License-Identifier: Apache-2.0
// Completions that each shell offers with the script of `accelerate
// completion`.
#include <sstream>

#include "cli_environment.h"

namespace accelerate::test {
namespace {

class Completion : public CliTest {
 protected:
  // Returns the sorted completions for `line`, separated by spaces.
  std::string completions(
      const std::string& shell_name, const std::string& line) {
    const std::string script = "$SRC/complete." + shell_name;
    // complete.bash takes words, and the scripts for the other shells take a
    // line. In bash, `=` is a separate word.
    const std::string arguments =
        shell_name == "bash" ? as_words(line) : "'" + line + "'";
    const auto result = run(shell_name + " " + script + " " + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::istringstream stream(result.out);
    std::string all;
    std::string word;
    while (stream >> word) {
      all += (all.empty() ? "" : " ") + word;
    }
    return all;
  }

  bool has(const std::string& shell_name) const {
    return run("command -v " + shell_name).exit_code == 0;
  }

  void check(const std::string& shell_name) {
    if (!has(shell_name)) {
      GTEST_SKIP() << shell_name << " is not installed";
    }
    const auto complete = [&](const std::string& line) {
      return completions(shell_name, line);
    };
    EXPECT_EQ(complete("accelerate la"), "launch");
    EXPECT_EQ(complete("accelerate e"), "env estimate-memory explain");
    EXPECT_EQ(complete("accelerate launch --num_p"), "--num_processes");
    EXPECT_EQ(complete("accelerate launch --mixed_precision "), "bf16 fp16 no");
    EXPECT_EQ(complete("accelerate explain --rdzv_backend s"), "static");
    EXPECT_EQ(complete("accelerate config "), "default update");
    EXPECT_EQ(complete("accelerate completion z"), "zsh");
    EXPECT_EQ(complete("accelerate help exit"), "exit-codes");
    EXPECT_EQ(complete("accelerate launch --config_file two"), "two_cpus.yaml");
    EXPECT_EQ(complete("accelerate launch --num_processes "), "");
    // With `=`, fish repeats the option; the other shells offer only the value.
    EXPECT_EQ(
        complete("accelerate launch --mixed_precision=b"),
        shell_name == "fish" ? "--mixed_precision=bf16" : "bf16");
  }

 private:
  static std::string as_words(const std::string& line) {
    std::string words;
    std::string word;
    const auto flush = [&] {
      words += " '" + word + "'";
      word.clear();
    };
    for (const char c : line) {
      if (c == ' ') {
        flush();
      } else if (c == '=') {
        flush();
        words += " =";
      } else {
        word += c;
      }
    }
    flush();
    return words;
  }
};

TEST_F(Completion, Bash) {
  check("bash");
}

TEST_F(Completion, BashOffersFilesForAProgramsArguments) {
  EXPECT_EQ(
      completions("bash", "accelerate launch --num_processes 2 ./train two"),
      "two_cpus.yaml");
  EXPECT_EQ(
      completions("bash", "accelerate launch --num-p"), "--num-processes");
}

TEST_F(Completion, Zsh) {
  check("zsh");
}

TEST_F(Completion, Fish) {
  check("fish");
}

}  // namespace
}  // namespace accelerate::test
