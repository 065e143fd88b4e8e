// SPDX-License-Identifier: Apache-2.0
// Every file in expect/ contains a command and its expected output.
// UPDATE_EXPECT=1 in the environment rewrites them.
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cli_environment.h"

namespace accelerate::test {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> case_names() {
  std::set<std::string> names;
  for (const auto& entry :
       fs::directory_iterator(std::string(ACCELERATE_CLI_TESTS) + "/expect")) {
    if (entry.path().extension() == ".txt") {
      names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

std::string replace(std::string text, const std::string& from, const char* to) {
  for (auto at = text.find(from); at != std::string::npos;
       at = text.find(from)) {
    text.replace(at, from.size(), to);
  }
  return text;
}

class Expect : public CliTest, public testing::WithParamInterface<std::string> {
 protected:
  // Replaces text that differs between runs or machines.
  std::string normalize(std::string text) const {
    char hostname[256] = {};
    ::gethostname(hostname, sizeof(hostname) - 1);
    text = replace(text, home_, "<home>");
    text = replace(text, ACCELERATE_CLI_TESTS, "<tests>");
    text = replace(text, ACCELERATE_WORKER, "<worker>");
    text = replace(text, ACCELERATE_BIN, "<bin>");
    text = std::regex_replace(
        text,
        std::regex("rank (\\d+) on " + std::string(hostname) + ", pid \\d+"),
        "rank $1 on <hostname>, pid <pid>");
    text = std::regex_replace(
        text, std::regex("failed(.*), [0-9.]+ s into"), "failed$1, <t> s into");
    text = std::regex_replace(
        text,
        std::regex("on the CPU, \\d+ threads?"),
        "on the CPU, <n> threads");
    return text;
  }
};

TEST_P(Expect, PrintsTheExpectedOutput) {
  const fs::path path =
      fs::path(ACCELERATE_CLI_TESTS) / "expect" / (GetParam() + ".txt");
  const std::string expected = read(path);
  const std::string line = expected.substr(2, expected.find('\n') - 2);

  const CommandResult result = run(line);
  std::string actual = "$ " + line + "\n";
  actual += "--- exit " + std::to_string(result.exit_code) + "\n";
  if (!result.out.empty()) {
    actual += "--- stdout\n" + normalize(result.out);
  }
  if (!result.err.empty()) {
    actual += "--- stderr\n" + normalize(result.err);
  }

  EXPECT_FALSE(result.timed_out);
  if (std::getenv("UPDATE_EXPECT") != nullptr) {
    std::ofstream(path) << actual;
    return;
  }
  EXPECT_EQ(actual, expected);
}

class Reference : public CliTest,
                  public testing::WithParamInterface<std::string> {};

TEST_P(Reference, PageMatchesTheBinary) {
  const fs::path path = fs::path(ACCELERATE_CLI_TESTS) /
                        "../../docs/reference" / (GetParam() + ".md");

  const CommandResult result = run("accelerate help --markdown " + GetParam());

  EXPECT_EQ(result.exit_code, 0) << result.err;
  if (std::getenv("UPDATE_EXPECT") != nullptr) {
    std::ofstream(path) << result.out;
    return;
  }
  EXPECT_EQ(result.out, read(path)) << "UPDATE_EXPECT=1 rewrites it";
}

INSTANTIATE_TEST_SUITE_P(
    Cli,
    Reference,
    testing::Values("cli", "configuration", "environment", "exit-codes"),
    [](const auto& test) {
      return test.index == 3 ? "exit_codes" : test.param;
    });

INSTANTIATE_TEST_SUITE_P(
    Cli, Expect, testing::ValuesIn(case_names()), [](const auto& test) {
      return test.param;
    });

}  // namespace
}  // namespace accelerate::test
