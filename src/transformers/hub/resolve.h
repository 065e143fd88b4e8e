// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "transformers/hub.h"
#include "transformers/hub/model_files.h"
#include "transformers/hub/settings.h"

namespace transformers::hub {

/// `resolve_folder` with settings of its own, for tests.
std::filesystem::path resolve_model(
    const std::string& name_or_folder,
    const std::string& revision,
    const Wanted& wanted,
    const Settings& settings);

}  // namespace transformers::hub
