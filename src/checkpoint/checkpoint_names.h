// SPDX-License-Identifier: Apache-2.0
// The names under which a checkpoint stores the state of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/tensor_map.h"
#include "training/prepared_objects.h"

namespace accelerate {

/// Name of the state of the CPU's random number generator. Each rank saves its
/// own state.
inline constexpr const char* kRandomState = "random.torch";
/// Name of the state of the device's random number generator. Each rank saves
/// its own state.
inline constexpr const char* kDeviceRandomState = "random.device";
/// Prefix of the names of random states that the user registered.
inline constexpr const char* kOtherRandomState = "random.other.";
/// Name of the total weight of a rank's micro-batches in an unfinished
/// micro-batch group.
inline constexpr const char* kGroupWeight = "group_weight";
/// Prefix of the names of accumulated gradient sums.
inline constexpr const char* kGradient = "gradient.";

/// Prefix of the names of buffers that may differ between ranks.
inline constexpr const char* kBuffer = "buffer.";
/// Key in the `run` document; its value lists, for each model, the names of the
/// weights that save hooks removed.
inline constexpr const char* kKeptOut = "kept_out";

/// Returns `name` for index 0, otherwise `<name>_<index>`: `model`, `model_1`,
/// …
std::string numbered(const char* name, std::size_t index);

/// Returns the name under which a rank saves its gradient sum for a parameter.
std::string gradient_name(std::size_t model, const std::string& name);

/// Returns the name under which a rank saves its own copy of a buffer.
std::string buffer_name(std::size_t model, const std::string& name);

/// Returns whether any tensor has a name that begins with `name`.
bool any_name_begins(const TensorMap& tensors, const char* name);

/// Returns text such as `Float[30, 160]`, for messages.
std::string type_and_shape(const at::Tensor& tensor);

/// Merges parameters and buffers into one map, under the model's own names.
/// Omits undefined tensors.
TensorMap merge_named(
    const NamedTensors& parameters, const NamedTensors& buffers);

/// Returns the parameters and buffers of a model as a checkpoint saves them; a
/// tied parameter appears only once.
TensorMap weights_of(const PreparedModel& model);

/// Returns the parameters of all models. From the second model on, names have a
/// prefix such as `model_1.`.
std::vector<std::pair<std::string, at::Tensor>> named_parameters(
    const std::vector<PreparedModel>& models);

}  // namespace accelerate
