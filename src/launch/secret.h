// SPDX-License-Identifier: Apache-2.0
// The secret that guards the meeting of several machines.
#pragma once

#include <string>

#include "config/environment.h"
#include "config/settings.h"

namespace accelerate {

/// `ACCELERATE_JOB_SECRET`, else the file of `--job_secret_file`, else
/// `job_secret` beside the default configuration, which is made with mode 0600
/// when it is missing.
///
/// Throws `ConfigError` for a file others can read, and for a secret of fewer
/// than 16 characters.
std::string job_secret(
    const Settings& settings, const Environment& environment);

/// The same, but makes none: for a machine that comes to another. Throws
/// `ConfigError` also when there is no secret.
std::string existing_job_secret(
    const Settings& settings, const Environment& environment);

}  // namespace accelerate
