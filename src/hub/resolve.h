// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "hub/hub_options.h"
#include "hub/repository_files.h"
#include "transformers/hub.h"

namespace transformers::hub {

/// Like `resolve_folder`, but takes all options as arguments, for tests.
std::filesystem::path resolve_model(
    const std::string& name_or_folder,
    const std::string& revision,
    const RequestedFiles& requested,
    const HubOptions& options);

}  // namespace transformers::hub
