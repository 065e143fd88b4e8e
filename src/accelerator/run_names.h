// SPDX-License-Identifier: Apache-2.0
// The names under which a checkpoint keeps the state of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/tensor_map.h"
#include "accelerator/accelerator_impl.h"

namespace accelerate {

/// What each rank keeps of its own, beside gradients.
inline constexpr const char* kRandomState = "random.torch";
inline constexpr const char* kDeviceRandomState = "random.device";
/// How the names of random numbers that were registered begin.
inline constexpr const char* kOtherRandomState = "random.other.";
inline constexpr const char* kGroupWeight = "group_weight";
/// How the names of gradients begin.
inline constexpr const char* kGradient = "gradient.";

/// How the names of buffers begin that may differ between ranks.
inline constexpr const char* kBuffer = "buffer.";
/// In `run`: by model, the weights that hooks took out.
inline constexpr const char* kKeptOut = "kept_out";

/// `model`, `model_1`, …
std::string numbered(const char* name, std::size_t index);

/// A sum that waits for a backward that synchronises.
std::string gradient_name(std::size_t model, const std::string& name);

/// A buffer of this rank.
std::string buffer_name(std::size_t model, const std::string& name);

/// Whether a name begins like that.
bool any_name_begins(const TensorMap& tensors, const char* name);

/// `Float[30, 160]`, for messages.
std::string type_and_shape(const at::Tensor& tensor);

/// Parameters and buffers under one model's own names, those that are defined:
/// what a state dictionary is.
TensorMap joined(const NamedTensors& parameters, const NamedTensors& buffers);

/// Those that the module has now.
NamedTensors buffers_of(const PreparedModel& model);

/// The weights of a model as a checkpoint keeps them; a tied one once.
TensorMap weights_of(const PreparedModel& model);

/// The parameters of all models; the names of later ones say which.
std::vector<std::pair<std::string, at::Tensor>> named_parameters(
    const std::vector<PreparedModel>& models);

}  // namespace accelerate
