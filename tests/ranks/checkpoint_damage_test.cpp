// SPDX-License-Identifier: Apache-2.0
// Damaged checkpoints.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/checksum.h"
#include "checkpoint_directory/manifest.h"
#include "support/message_of.h"
#include "support/single_process_run.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Expects that loading fails with `text` and changes nothing.
void expect_refused(const fs::path& checkpoint, const std::string& text) {
  const TemporaryDirectory elsewhere;
  SingleProcessRun run(elsewhere.path());
  const at::Tensor before = run.net->weight.detach().clone();
  EXPECT_THAT(
      message_of<Error>([&] { run.accelerator.load_state(checkpoint); }),
      HasSubstr(text));
  EXPECT_TRUE(at::equal(run.net->weight, before));
  EXPECT_EQ(run.accelerator.step(), 0);
}

TEST(Damage, TruncationOfAnyFileIsReported) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  for (const std::string& name : files_of(checkpoint)) {
    SCOPED_TRACE(name);
    const TemporaryDirectory copy;
    fs::copy(checkpoint, copy.path() / "c", fs::copy_options::recursive);
    fs::resize_file(
        copy.path() / "c" / name, fs::file_size(checkpoint / name) / 2);
    expect_refused(copy.path() / "c", name);
  }
}

TEST(Damage, AFlippedBitInAnyPageIsReported) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  int flips = 0;
  for (const std::string& name : files_of(checkpoint)) {
    for (std::uintmax_t at = 7; at < fs::file_size(checkpoint / name);
         at += 4096) {
      SCOPED_TRACE(name + " at " + std::to_string(at));
      flip_bit(checkpoint / name, at);
      expect_refused(checkpoint, name);
      flip_bit(checkpoint / name, at);
      ++flips;
    }
  }
  EXPECT_GT(flips, 12);
  SingleProcessRun(folder.path()).accelerator.load_state(checkpoint);
}

// Large files are mapped, and small files are read.
TEST(Damage, ChecksumsOfLargeFilesMatchTheirBytes) {
  const TemporaryDirectory folder;
  std::string content(std::size_t{20} << 20, 'x');
  content += "the end";
  const auto path = folder.write("large", content);
  EXPECT_EQ(checksum_file(path).xxh3, checksum_of(content));
  EXPECT_EQ(checksum_file(path).bytes, content.size());

  content.back() = 'D';
  EXPECT_NE(checksum_file(path).xxh3, checksum_of(content));
}

TEST(Damage, AMissingFileIsReported) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  for (const std::string& name : files_of(checkpoint)) {
    SCOPED_TRACE(name);
    fs::rename(checkpoint / name, folder.path() / "aside");
    expect_refused(checkpoint, name);
    fs::rename(folder.path() / "aside", checkpoint / name);
  }
}

/// Removes `file` from a checkpoint and from its manifest.
void remove_file_from(const fs::path& checkpoint, const std::string& file) {
  Manifest manifest = read_manifest(checkpoint);
  ASSERT_EQ(manifest.files.erase(file), 1U);
  std::ofstream(checkpoint / kManifestFile) << manifest.to_json();
  fs::remove(checkpoint / file);
}

TEST(Damage, AMissingModelThatNoManifestListsIsReported) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  remove_file_from(checkpoint, "model.safetensors");
  constexpr const char* kText =
      "model: the checkpoint was saved with this model, but has no file "
      "`model.safetensors`";

  expect_refused(checkpoint, kText);

  SingleProcessRun run(folder.path());
  EXPECT_THAT(
      run.accelerator.load_state(checkpoint, {.strict = false}).left_out,
      testing::ElementsAre(kText));
}

TEST(Damage, FilesOfAnotherCheckpointAreReported) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  run.step();
  const fs::path first = run.accelerator.save_state();
  run.step();
  const fs::path second = run.accelerator.save_state();
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    fs::copy_file(
        first / name, second / name, fs::copy_options::overwrite_existing);
    expect_refused(second, name);
  }
  fs::copy_file(
      first / kManifestFile,
      second / kManifestFile,
      fs::copy_options::overwrite_existing);
  fs::remove(second / "model.safetensors");
  expect_refused(second, "model.safetensors is missing");
}

TEST(Damage, AnEditedManifestIsDetected) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  std::ifstream in(checkpoint / kManifestFile);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("\"step\": 1"), 9, "\"step\": 9");
  std::ofstream(checkpoint / kManifestFile) << text;

  expect_refused(checkpoint, "was changed after it was written");
}

TEST(Damage, LinksOutOfTheFolderAreRefused) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  fs::rename(checkpoint / "model.safetensors", folder.path() / "outside");
  fs::create_symlink(
      folder.path() / "outside", checkpoint / "model.safetensors");

  expect_refused(
      checkpoint, "model.safetensors is a symbolic link, not a file");
}

TEST(Damage, ALinkedManifestIsRefused) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  fs::rename(checkpoint / kManifestFile, folder.path() / "outside");
  fs::create_symlink(folder.path() / "outside", checkpoint / kManifestFile);

  expect_refused(checkpoint, "manifest.json is a symbolic link, not a file");
}

TEST(Damage, ANewerFormatVersionIsRefused) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  Manifest manifest = read_manifest(checkpoint);
  manifest.major = 2;
  std::ofstream(checkpoint / kManifestFile) << manifest.to_json();

  expect_refused(
      checkpoint,
      "this checkpoint has format version 2.0, but this build reads only "
      "versions up to 1.x");
}

TEST(Damage, TheNewestUndamagedCheckpointIsLoadedAndTheOthersReported) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  for (int i = 0; i < 3; ++i) {
    run.step();
    run.accelerator.save_state();
  }
  const fs::path checkpoints = folder.path() / "checkpoints";
  flip_bit(checkpoints / "checkpoint_2" / "model.safetensors", 3000);
  fs::create_directory(checkpoints / "checkpoint_7");

  SingleProcessRun next(folder.path());
  const LoadStateReport report = next.accelerator.load_state();

  EXPECT_EQ(report.path, checkpoints / "checkpoint_1");
  EXPECT_EQ(report.step, 2);
  ASSERT_EQ(report.passed_over.size(), 2U);
  EXPECT_THAT(report.passed_over[0], HasSubstr("checkpoint_7"));
  EXPECT_THAT(report.passed_over[1], HasSubstr("model.safetensors"));
  // The next checkpoint gets a free number.
  next.step();
  EXPECT_EQ(next.accelerator.save_state(), checkpoints / "checkpoint_3");
}

// A batch system always starts a job with the same command, even the first
// time.
TEST(NothingSaved, IsAnErrorUnlessItIsNotRequired) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());

  EXPECT_THROW((void)run.accelerator.load_state(), IoError);
  const LoadStateReport report =
      run.accelerator.load_state({.required = false});
  EXPECT_TRUE(report.path.empty());
  EXPECT_EQ(report.step, 0);

  run.step();
  const fs::path saved = run.accelerator.save_state();
  SingleProcessRun next(folder.path());
  EXPECT_EQ(next.accelerator.load_state({.required = false}).path, saved);
  // Training must not silently start from scratch.
  flip_bit(saved / "model.safetensors", 3000);
  SingleProcessRun damaged(folder.path());
  EXPECT_THROW(
      (void)damaged.accelerator.load_state({.required = false}), IoError);
}

}  // namespace
}  // namespace accelerate
