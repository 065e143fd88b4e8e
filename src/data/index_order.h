// SPDX-License-Identifier: Apache-2.0
// The order in which a loader reads a dataset in one epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "accelerate/detail/batch_source.h"

namespace accelerate {

/// Returns the name of a loader's sample order, such as `shuffle`. The name is
/// part of the loader's saved state.
std::string order_name(
    const detail::LoaderConfig& config, bool use_seedable_sampler);

/// Returns the number of units in an epoch. A unit is a batch if the loader has
/// a batch sampler, otherwise a sample.
std::int64_t unit_count(
    const detail::LoaderConfig& config, std::int64_t dataset_size);

/// Returns a function that maps positions in an epoch to dataset indices.
/// Several threads may call the function at the same time.
std::function<std::int64_t(std::int64_t position)> make_order(
    const detail::LoaderConfig& config,
    std::int64_t dataset_size,
    const OrderKey& key,
    bool use_seedable_sampler);

/// Throws `ArgumentError` if `index`, which a sampler returned, is outside the
/// dataset.
void check_index(
    const char* sampler_name, std::int64_t index, std::int64_t dataset_size);

}  // namespace accelerate
