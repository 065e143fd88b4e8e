// SPDX-License-Identifier: Apache-2.0
// Launches the text examples as a user would, and checks their accuracy.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/command.h"
#include "support/temporary_directory.h"

namespace accelerate::test {
namespace {

CommandResult launch_example(
    int processes, const std::string& program, const std::string& options) {
  // All machines of a job share this folder and the secret in it.
  static const std::string home = fresh_folder();
  CommandOptions command;
  command.argv = {
      "/bin/sh",
      "-c",
      std::string(ACCELERATE_CLI) + " launch --cpu --num_processes " +
          std::to_string(processes) + " " + ACCELERATE_EXAMPLES_FOLDER + "/" +
          program + " " + options};
  // One thread per process, even if the launcher would choose more.
  command.environment = {
      {"HOME", home},
      {"PATH", "/usr/bin:/bin"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"OMP_NUM_THREADS", "1"},
      // As in the test presets: see docs/concepts/libtorch.md.
      {"ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"}};
  command.timeout = std::chrono::seconds(280);
  return run_command(command);
}

/// Returns the number after the last `label` in a text; -1 if there is none.
double last_number_after(const std::string& text, const std::string& label) {
  const auto found = text.rfind(label);
  return found == std::string::npos
             ? -1
             : std::stod(text.substr(found + label.size()));
}

/// Returns the lines of a text that start with `prefix`.
std::string lines_with(const std::string& text, const std::string& prefix) {
  std::string lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines += line.starts_with(prefix) ? line + "\n" : "";
  }
  return lines;
}

std::vector<std::filesystem::path> files_named(
    const std::filesystem::path& folder, const std::string& name) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == name) {
      files.push_back(entry.path());
    }
  }
  return files;
}

CommandResult run_example(const std::string& name, const std::string& option) {
  CommandOptions command;
  command.argv = {std::string(ACCELERATE_EXAMPLES_FOLDER) + "/" + name, option};
  command.timeout = std::chrono::seconds(20);
  return run_command(command);
}

class Usage : public testing::TestWithParam<const char*> {};

TEST_P(Usage, IsPrintedOnRequestOrForAnUnknownOption) {
  const std::string usage = std::string("usage: ") + GetParam() + " ";

  const auto help = run_example(GetParam(), "--help");
  const auto unknown = run_example(GetParam(), "--no_such");

  EXPECT_EQ(help.exit_code, 0) << help.err;
  EXPECT_TRUE(help.out.starts_with(usage)) << help.out;
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.out, "");
  EXPECT_TRUE(unknown.err.starts_with(usage)) << unknown.err;
}

INSTANTIATE_TEST_SUITE_P(
    Examples,
    Usage,
    testing::Values(
        "base",
        "train",
        "plain_train",
        "notebook_train",
        "nlp_example",
        "complete_nlp_example",
        "causal_lm",
        "tokenizer",
        "collectives"),
    [](const auto& example) { return std::string(example.param); });

class ExampleWithoutOptions : public testing::TestWithParam<const char*> {};

TEST_P(ExampleWithoutOptions, DoesNotTrainOnHelp) {
  const auto help = run_example(GetParam(), "--help");

  EXPECT_EQ(help.exit_code, 2);
  EXPECT_EQ(help.out, "");
  EXPECT_EQ(help.err, "this example has no options\n");
}

INSTANTIATE_TEST_SUITE_P(
    Examples,
    ExampleWithoutOptions,
    testing::Values("batch_norm", "data_loader", "notebook_launcher"),
    [](const auto& example) { return std::string(example.param); });

class NlpExample : public testing::TestWithParam<int> {};

// Half of the pairs mean the same, so an untrained model has an accuracy of 50
// %. The total batch size does not depend on the number of processes, so all
// runs reach the same accuracy.
TEST_P(NlpExample, LearnsWhichSentencesMeanTheSame) {
  const auto result = launch_example(GetParam(), "nlp_example", "");

  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(last_number_after(result.out, "accuracy "), 0.9) << result.out;
  EXPECT_GE(last_number_after(result.out, "F1 "), 0.9) << result.out;
  // Only the main process shows a progress bar.
  EXPECT_NE(result.err.find("1000/1000 ["), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Processes, NlpExample, testing::Values(1, 2, 3), [](const auto& param) {
      return std::to_string(param.param);
    });

/// Copies ten batches of the bundled pairs, enough to see a difference.
std::string few_pairs(const TemporaryDirectory& folder) {
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

TEST(CompleteNlpExample, ResumesMidEpochWithTheSameResult) {
  const TemporaryDirectory folder;
  const std::string common =
      "--num_epochs 3 --learning_rate 3e-3 --data " + few_pairs(folder) +
      " --gradient_accumulation_steps 2 --num_workers 1 "
      "--gradient_checkpointing yes --lr_scheduler cosine --project_dir " +
      folder.path().string();
  const auto uninterrupted = launch_example(
      2, "complete_nlp_example", common + " --checkpointing_steps 12");
  ASSERT_EQ(uninterrupted.exit_code, 0) << uninterrupted.err;

  // The first checkpoint is saved in the second epoch, after 12 batches and 6
  // updates.
  const auto resumed = launch_example(
      2,
      "complete_nlp_example",
      common + " --resume_from_checkpoint " +
          (folder.path() / "checkpoints" / "checkpoint_0").string());

  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(
      resumed.out.find("resumed at step 6 in epoch 1\n"), std::string::npos)
      << resumed.out;
  EXPECT_NE(lines_with(uninterrupted.out, "epoch 2: accuracy"), "");
  EXPECT_EQ(
      lines_with(uninterrupted.out, "epoch "),
      lines_with(uninterrupted.out, "epoch 0") +
          lines_with(resumed.out, "epoch "));
}

TEST(CompleteNlpExample, StopsEarlyAndSavesAModelThatLoads) {
  const TemporaryDirectory folder;
  const auto first = launch_example(
      2,
      "complete_nlp_example",
      "--num_epochs 3 --stop_at_accuracy 0.2 --mixed_precision bf16 --data " +
          few_pairs(folder) + " --output_dir " + folder.path().string() +
          " --profile " + (folder.path() / "profile").string());
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("stopped early at accuracy"), std::string::npos)
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
  // The model was trained in bf16 and loaded in fp32.
  EXPECT_NEAR(
      last_number_after(second.out, "accuracy "),
      last_number_after(first.out, "epoch 0: accuracy "),
      0.05);
}

struct TrackedExample {
  std::string program;
  std::string options;
  /// A key in the entry of the last step.
  std::string last_key;
};

class WithTracking : public testing::TestWithParam<TrackedExample> {};

TEST_P(WithTracking, LogsTheLossAndTheResult) {
  const TemporaryDirectory folder;
  std::string options = GetParam().options;
  if (options.ends_with("--data")) {
    options += " " + few_pairs(folder);
  }

  const auto result = launch_example(
      2,
      GetParam().program,
      "--with_tracking --project_dir " + (folder.path() / "run").string() +
          " " + options);

  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto files = files_named(folder.path() / "run", "metrics.jsonl");
  ASSERT_EQ(files.size(), 1U);
  std::ifstream file(files.front());
  std::string last;
  std::size_t losses = 0;
  for (std::string line; std::getline(file, line); last = line) {
    losses += line.find("\"train/loss\"") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(losses, 5U);
  EXPECT_NE(last.find('"' + GetParam().last_key + '"'), std::string::npos)
      << last;
  EXPECT_EQ(files_named(folder.path() / "run", "metrics.csv").size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Examples,
    WithTracking,
    testing::Values(
        TrackedExample{"base", "", "train/loss"},
        TrackedExample{"by_feature/local_sgd", "", "train/loss"},
        TrackedExample{
            "complete_nlp_example", "--num_epochs 1 --data", "eval/f1"},
        TrackedExample{"nlp_example", "--num_epochs 1 --data", "eval/f1"},
        TrackedExample{"causal_lm", "--num_epochs 1", "eval/perplexity"}),
    [](const auto& example) {
      const std::string& program = example.param.program;
      return program.substr(program.rfind('/') + 1);
    });

TEST(CausalLm, LearnsTheGrammarOfTheSentences) {
  const auto result = launch_example(2, "causal_lm", "");

  ASSERT_EQ(result.exit_code, 0) << result.err;
  // At first, all 87 tokens are equally likely. After training, the uncertainty
  // of the text's grammar remains: about six words per sentence, with up to six
  // choices each.
  EXPECT_GT(last_number_after(result.out, "perplexity before: "), 70);
  EXPECT_LT(last_number_after(result.out, ": perplexity "), 4) << result.out;
  EXPECT_GT(last_number_after(result.out, ": perplexity "), 2) << result.out;
  const std::regex sentence("\na doctor never [a-z]+s an? [a-z]+\\.\n");
  EXPECT_TRUE(std::regex_search(result.out, sentence)) << result.out;
}

}  // namespace
}  // namespace accelerate::test
