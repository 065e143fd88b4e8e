// SPDX-License-Identifier: Apache-2.0
#include "launch/secret.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "config/config_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::string check_length(const std::string& secret, const std::string& source) {
  constexpr std::size_t kMinLength = 16;
  if (secret.size() < kMinLength) {
    throw ConfigError(
        str_cat(
            "the job secret in ",
            source,
            " is too short: it has length ",
            secret.size(),
            ", but the minimum is ",
            kMinLength),
        "generate one with `openssl rand -hex 32`");
  }
  return secret;
}

std::string read_secret(const fs::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    throw ConfigError(str_cat(
        "cannot read the job secret in ",
        path.string(),
        ": ",
        errno_text(errno)));
  }
  if ((info.st_mode & 077U) != 0) {
    throw ConfigError(
        str_cat(path.string(), " is readable by other users"),
        str_cat("run `chmod 600 ", path.string(), "`"));
  }
  const std::string text = read_file(path, 4096);
  return check_length(std::string(trim(text)), path.string());
}

// Machines that share a home folder may do this at the same time: the first one
// to link its file wins, and all of them read that file.
void create_secret(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const std::string temporary =
      str_cat(path.string(), ".", to_hex(random_bytes(6)));
  write_file(temporary, to_hex(random_bytes(32)) + "\n", 0600);
  ::link(temporary.c_str(), path.c_str());
  ::unlink(temporary.c_str());
}

fs::path secret_path(const Settings& settings, const Environment& environment) {
  return settings.has("job_secret_file")
             ? expand_home(settings.text("job_secret_file"), environment)
             : config_folder(environment) / "job_secret";
}

}  // namespace

std::string existing_job_secret(
    const Settings& settings, const Environment& environment) {
  if (const auto secret = environment.get("ACCELERATE_JOB_SECRET")) {
    return check_length(*secret, "ACCELERATE_JOB_SECRET");
  }
  const fs::path path = secret_path(settings, environment);
  if (!fs::exists(path)) {
    throw ConfigError(
        str_cat(
            "this machine does not have the job secret: ACCELERATE_JOB_SECRET "
            "is not set, and ",
            path.string(),
            " does not exist"),
        "set the same ACCELERATE_JOB_SECRET on every machine, or copy the file "
        "from machine 0");
  }
  return read_secret(path);
}

std::string job_secret(
    const Settings& settings, const Environment& environment) {
  const fs::path path = secret_path(settings, environment);
  if (!environment.has("ACCELERATE_JOB_SECRET") &&
      !settings.has("job_secret_file") && !fs::exists(path)) {
    create_secret(path);
  }
  return existing_job_secret(settings, environment);
}

}  // namespace accelerate
