// SPDX-License-Identifier: Apache-2.0
#include "launch/secret.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "config/user_folders.h"

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
            " is too short: it has ",
            secret.size(),
            " characters, but the minimum is ",
            kMinLength),
        "create a longer secret with `openssl rand -hex 32`");
  }
  return secret;
}

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof(text), "%04o", static_cast<unsigned>(mode));
  return text;
}

// Checks the open file, so that it cannot be replaced after the check.
void check_file(int fd, const fs::path& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    throw_errno("check", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    throw ConfigError(
        str_cat(path.string(), " is not a regular file"),
        "pass a file with a secret to `--job_secret_file`");
  }
  // Root can read and change every file anyway.
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    throw ConfigError(
        str_cat(
            path.string(),
            " belongs to user ",
            info.st_uid,
            ", but this process runs as user ",
            ::geteuid()),
        "make your own copy of the file, or set ACCELERATE_JOB_SECRET");
  }
  if ((info.st_mode & 077U) != 0) {
    throw ConfigError(
        str_cat(
            path.string(),
            " can be read or changed by other users (mode ",
            octal(info.st_mode & 07777U),
            ")"),
        str_cat("run `chmod 600 ", path.string(), "`"));
  }
}

std::string read_secret(const fs::path& path) {
  // O_NONBLOCK prevents waiting for the writer of a FIFO.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    throw ConfigError(str_cat(
        "cannot read the job secret in ",
        path.string(),
        ": ",
        errno_text(errno)));
  }
  check_file(fd.get(), path);
  const std::string text = read_descriptor(fd.get(), path, 4096);
  return check_length(std::string(trim(text)), path.string());
}

// The bits of randomness per character, if the text is random. Text with spaces
// or with only one kind of character is assumed to be words that a person
// chose.
double bits_per_character(std::string_view secret) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kUpperHex = "0123456789ABCDEF";
  if (secret.find_first_not_of(kHex) == std::string_view::npos ||
      secret.find_first_not_of(kUpperHex) == std::string_view::npos) {
    return 4;
  }
  const auto has = [&](std::string_view first_and_last) {
    return std::any_of(secret.begin(), secret.end(), [&](char c) {
      return c >= first_and_last[0] && c <= first_and_last[1];
    });
  };
  const bool has_space = secret.find(' ') != std::string_view::npos;
  const int kinds = int{has("az")} + int{has("AZ")} + int{has("09")};
  return has_space || kinds < 2 ? 2 : kinds == 2 ? 5 : 6;
}

// The Shannon entropy of the characters, which is small if they repeat.
double entropy_of_characters(std::string_view secret) {
  std::map<char, double> counts;
  for (const char c : secret) {
    ++counts[c];
  }
  const auto size = static_cast<double>(secret.size());
  double bits = 0;
  for (const auto& [c, count] : counts) {
    bits -= count * std::log2(count / size);
  }
  return bits;
}

double estimated_bits(std::string_view secret) {
  const auto size = static_cast<double>(secret.size());
  const double each = bits_per_character(secret);
  // Characters repeat in random text as well, but less often than in text from
  // a language. They repeat most in short hexadecimal text, which has only 16
  // different characters.
  const double least = size * std::min(0.6 * each, 0.75 * std::log2(size));
  const double entropy = entropy_of_characters(secret);
  return entropy < least ? entropy : each * size;
}

// Machines that share a home folder may create the secret at the same time. The
// first machine that links its file wins, and all machines read that file.
void create_secret(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const std::string temporary =
      str_cat(path.string(), ".", to_hex(random_bytes(6)));
  write_file(temporary, to_hex(random_bytes(32)) + "\n", 0600);
  (void)!::link(temporary.c_str(), path.c_str());
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

std::string weak_secret_warning(const std::string& secret) {
  constexpr int kNeeded = 128;
  const double bits = estimated_bits(secret);
  if (bits >= kNeeded) {
    return {};
  }
  return str_cat(
      "the job secret has about ",
      std::lround(bits),
      " bits of randomness, but ",
      kNeeded,
      " are needed to resist an attacker who records a connection; create a "
      "stronger secret with `openssl rand -hex 32`");
}

}  // namespace accelerate
