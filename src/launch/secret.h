// SPDX-License-Identifier: Apache-2.0
// The secret that authenticates the machines of a job to each other.
#pragma once

#include <string>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

/// Returns the job secret from the environment variable
/// `ACCELERATE_JOB_SECRET`, else from the file that `--job_secret_file` names,
/// else from the file `job_secret` next to the default configuration file. If
/// the file `job_secret` is needed but missing, creates it with mode 0600.
///
/// Throws `ConfigError` if other users can read or change the file, if the file
/// belongs to another user, or if the secret has fewer than 16 characters.
std::string job_secret(
    const Settings& settings, const Environment& environment);

/// Like `job_secret`, but for a joining machine: throws `ConfigError` if there
/// is no secret, instead of creating one.
std::string existing_job_secret(
    const Settings& settings, const Environment& environment);

/// Returns a warning if an estimate of the secret's randomness is below 128
/// bits, otherwise an empty string. An attacker who has recorded a handshake
/// can test guesses offline, so a secret must be hard to guess.
std::string weak_secret_warning(const std::string& secret);

}  // namespace accelerate
