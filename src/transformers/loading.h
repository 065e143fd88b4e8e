// SPDX-License-Identifier: Apache-2.0
// Makes models from folders and from configs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

#include "transformers/model_module.h"
#include "transformers/models/registry.h"

namespace transformers {

std::shared_ptr<ModelModule> load_model(
    Task task, const std::string& name, const FromPretrainedOptions& options);

std::shared_ptr<ModelModule> make_model(
    Task task, const Config& config, const FromConfigOptions& options);

/// Parses the name of a data type, such as "float32". Returns nothing if the
/// name is unknown or weights cannot have this type.
std::optional<c10::ScalarType> dtype_from_name(std::string_view name);
std::string_view dtype_name(c10::ScalarType dtype);

}  // namespace transformers
