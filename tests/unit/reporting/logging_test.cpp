// SPDX-License-Identifier: Apache-2.0
#include "accelerate/logging.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "accelerate/partial_state.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

class Logging : public testing::Test {
 protected:
  Logging() {
    PartialState::reset();
    ::unsetenv("ACCELERATE_LOG_LEVEL");
  }
  ~Logging() override {
    PartialState::reset();
    ::unsetenv("ACCELERATE_LOG_LEVEL");
  }

  static std::string captured(const std::function<void()>& body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(Logging, NeedsAState) {
  EXPECT_EQ(
      message_of<StateError>([] { get_logger("train").debug("hidden"); }),
      "logger `train` was used before a PartialState was created");
}

TEST_F(Logging, WritesLevelNameAndRank) {
  const PartialState state;

  EXPECT_EQ(
      captured([] { get_logger("train").warning("low memory"); }),
      "WARNING train: [RANK 0] low memory\n");
  EXPECT_EQ(
      captured(
          [] { get_logger("train").critical("over", {.in_order = true}); }),
      "CRITICAL train: [RANK 0] over\n");
}

TEST_F(Logging, HidesMessagesBelowTheLevel) {
  const PartialState state;
  const Logger logger = get_logger("train", LogLevel::error);

  EXPECT_FALSE(logger.is_enabled_for(LogLevel::warning));
  EXPECT_EQ(captured([&] { logger.warning("hidden"); }), "");
  EXPECT_EQ(
      captured([&] { logger.error("seen"); }), "ERROR train: [RANK 0] seen\n");
}

TEST_F(Logging, ReadsTheLevelFromTheEnvironment) {
  EXPECT_EQ(get_logger("a").level(), LogLevel::warning);
  ::setenv("ACCELERATE_LOG_LEVEL", "debug", 1);
  EXPECT_EQ(get_logger("a").level(), LogLevel::debug);
  EXPECT_EQ(get_logger("a", LogLevel::info).level(), LogLevel::info);
  ::setenv("ACCELERATE_LOG_LEVEL", "loud", 1);
  EXPECT_EQ(
      message_of<ConfigError>([] { get_logger("a"); }),
      "environment variable ACCELERATE_LOG_LEVEL is `loud`, but must be one of "
      "debug, "
      "info, warning, error, critical");
}

TEST_F(Logging, LogsAWarningOnceAcrossLoggers) {
  const PartialState state;
  const Logger first = get_logger("first");
  const Logger second = get_logger("second");

  EXPECT_EQ(
      captured([&] {
        first.warning_once("logged once by this test");
        second.warning_once("logged once by this test");
      }),
      "WARNING first: [RANK 0] logged once by this test\n");
}

}  // namespace
}  // namespace accelerate
