// SPDX-License-Identifier: Apache-2.0
// Values of a run in the forms that Weights & Biases stores.
#pragma once

#include <filesystem>

#include "accelerate/json.h"
#include "accelerate/tracker.h"
#include "tracking/wandb_records.h"

namespace accelerate {

/// Returns a number, text or histogram as W&B stores it.
Json wandb_value(const TrackedValue& value);

/// Writes the images as files, `media/images/<key>_<step>_<digest>.png` in
/// `folder`, and adds the files to the row. Returns what W&B stores in the row.
Json write_wandb_images(
    const std::filesystem::path& folder,
    WandbRow& row,
    const TrackedImageEntry& entry);

/// Writes the table as a file in `media/table`, like an image.
Json write_wandb_table(
    const std::filesystem::path& folder,
    WandbRow& row,
    const TrackedTable& table);

}  // namespace accelerate
