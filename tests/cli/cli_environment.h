// SPDX-License-Identifier: Apache-2.0
// The environment for tests of the `accelerate` binary: an empty home folder,
// no GPU, a fixed PATH.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include "support/command.h"
#include "support/temporary_directory.h"

namespace accelerate::test {

class CliTest : public testing::Test {
 protected:
  std::map<std::string, std::string> environment() const {
    return {
        {"HOME", home_},
        {"TMPDIR", home_},
        {"PATH", std::string(ACCELERATE_BIN) + ":/usr/bin:/bin"},
        {"CUDA_VISIBLE_DEVICES", ""},
        {"LC_ALL", "C.UTF-8"},
        {"WORKER", ACCELERATE_WORKER},
        {"SRC", ACCELERATE_CLI_TESTS},
    };
  }

  /// Returns the options to run a shell command.
  CommandOptions shell(const std::string& line) const {
    CommandOptions options;
    options.argv = {"/bin/sh", "-c", line};
    options.environment = environment();
    options.folder = std::string(ACCELERATE_CLI_TESTS) + "/data";
    return options;
  }

  CommandResult run(const std::string& line) const {
    return run_command(shell(line));
  }

  const TemporaryDirectory folder_;
  const std::string home_ = folder_.path();
};

}  // namespace accelerate::test
