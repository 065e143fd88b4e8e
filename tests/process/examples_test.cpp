// SPDX-License-Identifier: Apache-2.0
// What the examples on text learn, launched as a user would.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "support/command.h"
#include "support/temporary_folder.h"

namespace accelerate::test {
namespace {

CommandResult launch_example(
    int processes, const std::string& program, const std::string& options) {
  // Machines of one job share it, and the secret in it.
  static const std::string home = fresh_folder();
  CommandOptions command;
  command.words = {
      "/bin/sh",
      "-c",
      std::string(ACCELERATE_CLI) + " launch --cpu --num_processes " +
          std::to_string(processes) + " " + ACCELERATE_EXAMPLES_FOLDER + "/" +
          program + " " + options};
  // One thread each, also where the launcher would give more.
  command.environment = {
      {"HOME", home},
      {"PATH", "/usr/bin:/bin"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"OMP_NUM_THREADS", "1"}};
  command.timeout = std::chrono::seconds(280);
  return run_command(command);
}

/// The number after `words` where they last stand in a text; -1 if nowhere.
double last_number_after(const std::string& text, const std::string& words) {
  const auto found = text.rfind(words);
  return found == std::string::npos
             ? -1
             : std::stod(text.substr(found + words.size()));
}

/// The lines of a text that begin like that.
std::string lines_with(const std::string& text, const std::string& begin) {
  std::string lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines += line.starts_with(begin) ? line + "\n" : "";
  }
  return lines;
}

class NlpExample : public testing::TestWithParam<int> {};

// Half of the pairs mean the same: who learns nothing is right for 50 %. A
// batch is that of all processes together, so that any number learns as much.
TEST_P(NlpExample, LearnsWhichSentencesMeanTheSame) {
  const auto result = launch_example(GetParam(), "nlp_example", "");

  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(last_number_after(result.out, "accuracy "), 0.9) << result.out;
  EXPECT_GE(last_number_after(result.out, "F1 "), 0.9) << result.out;
  // The bar of the main process alone.
  EXPECT_NE(result.err.find("1000/1000 ["), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Processes, NlpExample, testing::Values(1, 2, 3), [](const auto& param) {
      return std::to_string(param.param);
    });

/// Ten batches of the bundled pairs: enough to see that nothing differs.
std::string few_pairs(const TemporaryFolder& folder) {
  const auto copy = [&](const std::string& name, int lines) {
    std::ifstream from(ACCELERATE_EXAMPLE_DATA "/" + name);
    std::string text;
    for (std::string line; lines > 0 && std::getline(from, line); --lines) {
      text += line + "\n";
    }
    folder.write("data/" + name, text);
  };
  copy("train.csv", 241);
  copy("validation.csv", 101);
  copy("vocab.txt", 1000);
  return (folder.path() / "data").string();
}

TEST(CompleteNlpExample, ResumesInTheMiddleAndEndsTheSame) {
  const TemporaryFolder folder;
  const std::string common =
      "--num_epochs 3 --learning_rate 3e-3 --data " + few_pairs(folder) +
      " --gradient_accumulation_steps 2 --num_workers 1 "
      "--gradient_checkpointing yes --lr_scheduler cosine --project_dir " +
      folder.path().string();
  const auto whole = launch_example(
      2, "complete_nlp_example", common + " --checkpointing_steps 12");
  ASSERT_EQ(whole.exit_code, 0) << whole.err;

  // Its first checkpoint, in the second epoch: after 12 batches, 6 updates.
  const auto resumed = launch_example(
      2,
      "complete_nlp_example",
      common + " --resume_from_checkpoint " +
          (folder.path() / "checkpoints" / "checkpoint_0").string());

  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(
      resumed.out.find("resumed at step 6 in epoch 1\n"), std::string::npos)
      << resumed.out;
  EXPECT_NE(lines_with(whole.out, "epoch 2: accuracy"), "");
  EXPECT_EQ(
      lines_with(whole.out, "epoch "),
      lines_with(whole.out, "epoch 0") + lines_with(resumed.out, "epoch "));
}

TEST(CompleteNlpExample, StopsEarlyAndSavesAModelThatLoads) {
  const TemporaryFolder folder;
  const auto first = launch_example(
      2,
      "complete_nlp_example",
      "--num_epochs 3 --stop_at_accuracy 0.2 --mixed_precision bf16 --data " +
          few_pairs(folder) + " --output_dir " + folder.path().string() +
          " --profile " + (folder.path() / "profile").string());
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("stopped early, at accuracy"), std::string::npos)
      << first.out;
  EXPECT_EQ(first.out.find("epoch 1:"), std::string::npos) << first.out;
  EXPECT_TRUE(
      std::filesystem::exists(folder.path() / "profile" / "profile_1.json"));

  const auto second = launch_example(
      1,
      "nlp_example",
      "--num_epochs 1 --learning_rate 0 --data " + few_pairs(folder) +
          " --checkpoint " + folder.path().string());

  ASSERT_EQ(second.exit_code, 0) << second.err;
  // Trained in bf16, read back in fp32.
  EXPECT_NEAR(
      last_number_after(second.out, "accuracy "),
      last_number_after(first.out, "epoch 0: accuracy "),
      0.05);
}

TEST(CausalLm, LearnsTheGrammarOfTheSentences) {
  const auto result = launch_example(2, "causal_lm", "");

  ASSERT_EQ(result.exit_code, 0) << result.err;
  // All 87 tokens are equally likely at first. A grammar of half a dozen words
  // with up to six choices each is left.
  EXPECT_GT(last_number_after(result.out, "perplexity before: "), 70);
  EXPECT_LT(last_number_after(result.out, ": perplexity "), 4) << result.out;
  EXPECT_GT(last_number_after(result.out, ": perplexity "), 2) << result.out;
  const std::regex sentence("\na doctor never [a-z]+s an? [a-z]+\\.\n");
  EXPECT_TRUE(std::regex_search(result.out, sentence)) << result.out;
}

}  // namespace
}  // namespace accelerate::test
