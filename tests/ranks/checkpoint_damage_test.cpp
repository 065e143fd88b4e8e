// SPDX-License-Identifier: Apache-2.0
// Checkpoints that somebody or something changed.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "folders/checkpoints.h"
#include "folders/checksum.h"
#include "support/lone_run.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Loading says `text` and changes nothing.
void expect_refused(const fs::path& checkpoint, const std::string& text) {
  const TemporaryFolder elsewhere;
  LoneRun run(elsewhere.path());
  const at::Tensor before = run.net->weight.detach().clone();
  EXPECT_THAT(
      message_of<Error>([&] { run.accelerator.load_state(checkpoint); }),
      HasSubstr(text));
  EXPECT_TRUE(at::equal(run.net->weight, before));
  EXPECT_EQ(run.accelerator.step(), 0);
}

TEST(Damage, TruncationOfAnyFileIsNamed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  for (const std::string& name : files_of(whole)) {
    SCOPED_TRACE(name);
    const TemporaryFolder copy;
    fs::copy(whole, copy.path() / "c", fs::copy_options::recursive);
    fs::resize_file(copy.path() / "c" / name, fs::file_size(whole / name) / 2);
    expect_refused(copy.path() / "c", name);
  }
}

TEST(Damage, AFlippedBitInAnyPageIsNamed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  int flips = 0;
  for (const std::string& name : files_of(whole)) {
    for (std::uintmax_t at = 7; at < fs::file_size(whole / name); at += 4096) {
      SCOPED_TRACE(name + " at " + std::to_string(at));
      flip_bit(whole / name, at);
      expect_refused(whole, name);
      flip_bit(whole / name, at);
      ++flips;
    }
  }
  EXPECT_GT(flips, 12);
  LoneRun(folder.path()).accelerator.load_state(whole);
}

// Large files are mapped, small ones are read.
TEST(Damage, SumsOfLargeFilesAreThoseOfTheirBytes) {
  const TemporaryFolder folder;
  std::string content(std::size_t{20} << 20, 'x');
  content += "the end";
  const auto path = folder.write("large", content);
  EXPECT_EQ(sum_of_file(path).xxh3, checksum_of(content));
  EXPECT_EQ(sum_of_file(path).bytes, content.size());

  content.back() = 'D';
  EXPECT_NE(sum_of_file(path).xxh3, checksum_of(content));
}

TEST(Damage, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  for (const std::string& name : files_of(whole)) {
    SCOPED_TRACE(name);
    fs::rename(whole / name, folder.path() / "aside");
    expect_refused(whole, name);
    fs::rename(folder.path() / "aside", whole / name);
  }
}

TEST(Damage, FilesOfAnotherCheckpointAreNamed) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
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

TEST(Damage, AnEditedManifestIsNoticed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  std::ifstream in(whole / kManifestFile);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("\"step\": 1"), 9, "\"step\": 9");
  std::ofstream(whole / kManifestFile) << text;

  expect_refused(whole, "was changed after it was written");
}

TEST(Damage, LinksOutOfTheFolderAreRefused) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  fs::rename(whole / "model.safetensors", folder.path() / "outside");
  fs::create_symlink(folder.path() / "outside", whole / "model.safetensors");

  expect_refused(whole, "model.safetensors is a link, not a file");
}

TEST(Damage, ALinkedManifestIsRefused) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  fs::rename(whole / kManifestFile, folder.path() / "outside");
  fs::create_symlink(folder.path() / "outside", whole / kManifestFile);

  expect_refused(whole, "manifest.json is a link, not a file");
}

TEST(Damage, ANewerFormatIsRefusedByName) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  Manifest manifest = read_manifest(whole);
  manifest.major = 2;
  std::ofstream(whole / kManifestFile) << manifest.to_json();

  expect_refused(
      whole, "this checkpoint has format 2.0, this build reads up to 1.x");
}

TEST(Damage, TheNewestWholeCheckpointIsTakenAndTheOthersNamed) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  for (int i = 0; i < 3; ++i) {
    run.step();
    run.accelerator.save_state();
  }
  const fs::path checkpoints = folder.path() / "checkpoints";
  flip_bit(checkpoints / "checkpoint_2" / "model.safetensors", 3000);
  fs::create_directory(checkpoints / "checkpoint_7");

  LoneRun next(folder.path());
  const LoadStateReport report = next.accelerator.load_state();

  EXPECT_EQ(report.path, checkpoints / "checkpoint_1");
  EXPECT_EQ(report.step, 2);
  ASSERT_EQ(report.passed_over.size(), 2U);
  EXPECT_THAT(report.passed_over[0], HasSubstr("checkpoint_7"));
  EXPECT_THAT(report.passed_over[1], HasSubstr("model.safetensors"));
  // The next one gets a number that is free.
  next.step();
  EXPECT_EQ(next.accelerator.save_state(), checkpoints / "checkpoint_3");
}

}  // namespace
}  // namespace accelerate
