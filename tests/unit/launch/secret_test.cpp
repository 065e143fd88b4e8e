// SPDX-License-Identifier: Apache-2.0
#include "launch/secret.h"

#include <filesystem>
#include <fstream>
#include <future>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

class JobSecretFile : public testing::Test {
 protected:
  fs::path path() const {
    return fs::path(home_.path()) / ".cache/huggingface/accelerate/job_secret";
  }

  void write_secret(mode_t mode) const {
    fs::create_directories(path().parent_path());
    std::ofstream(path()) << kSecret << "\n";
    ::chmod(path().c_str(), mode);
  }

  std::string secret() const {
    return existing_job_secret(
        Settings(), Environment({{"HOME", home_.path()}}));
  }

  std::string error() const {
    try {
      return "no error: " + secret();
    } catch (const ConfigError& error) {
      return error.what();
    }
  }

  const TemporaryDirectory home_;
};

TEST_F(JobSecretFile, IsRead) {
  write_secret(0600);

  EXPECT_EQ(secret(), kSecret);
}

TEST_F(JobSecretFile, MustNotBeAccessibleToOthers) {
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    write_secret(mode);

    EXPECT_EQ(
        error(),
        path().string() + " can be read or changed by other users (mode " +
            (mode == 0640   ? "0640"
             : mode == 0604 ? "0604"
             : mode == 0620 ? "0620"
                            : "0602") +
            ")");
  }
}

TEST_F(JobSecretFile, MustBelongToTheUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can change a file's owner";
  }
  write_secret(0600);
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);

  EXPECT_EQ(
      error(),
      path().string() +
          " belongs to user 12345, but this process runs as "
          "user 0");
}

// If a file were checked before it is opened, it could be replaced in between.
// This test uses a FIFO without a writer, for which the launcher must not wait.
TEST_F(JobSecretFile, IsCheckedAfterItIsOpened) {
  fs::create_directories(path().parent_path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  auto result = std::async(std::launch::async, [this] { return error(); });

  const bool returned =
      result.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  if (!returned) {
    // Ends the read.
    std::ofstream(path()) << "";
  }
  EXPECT_TRUE(returned) << "the launcher waits for a writer";
  EXPECT_EQ(result.get(), path().string() + " is not a regular file");
}

TEST_F(JobSecretFile, IsCreatedForTheUserAlone) {
  const Environment environment({{"HOME", home_.path()}});

  const std::string created = job_secret(Settings(), environment);

  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_EQ(secret(), created);
  EXPECT_EQ(weak_secret_warning(created), "");
}

TEST(JobSecret, WarnsBelow128Bits) {
  const auto warns = [](const std::string& secret) {
    return !weak_secret_warning(secret).empty();
  };

  EXPECT_TRUE(warns(std::string(64, 'a')));
  EXPECT_TRUE(warns("abababababababababababababababababab"));
  EXPECT_TRUE(warns("correct horse battery staple"));
  EXPECT_TRUE(warns("Password123Password123"));
  EXPECT_TRUE(warns("0123456789012345"));
  EXPECT_TRUE(warns("0123456789abcdef"));
  EXPECT_FALSE(warns(kSecret));
  EXPECT_FALSE(warns("q83vEjRWeJCrze8SNFZ4kA=="));
  for (int i = 0; i < 1000; ++i) {
    const std::string secret = to_hex(random_bytes(16));
    EXPECT_FALSE(warns(secret)) << secret;
  }
}

TEST(JobSecret, TheWarningSaysWhatToDo) {
  EXPECT_EQ(
      weak_secret_warning("correct horse battery staple"),
      "the job secret has about 56 bits of randomness, but 128 are needed to "
      "resist an attacker who records a connection; create a stronger secret "
      "with `openssl rand -hex 32`");
}

}  // namespace
}  // namespace accelerate
