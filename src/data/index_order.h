// SPDX-License-Identifier: Apache-2.0
// The dataset index at each position of one epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "accelerate/detail/batch_source.h"

namespace accelerate {

/// Which kind of order a loader has; part of a saved state.
std::string order_name(
    const detail::LoaderSettings& settings, bool use_seedable_sampler);

/// Units of an epoch: samples, or batches where there is a batch sampler.
std::int64_t unit_count(
    const detail::LoaderSettings& settings, std::int64_t dataset_size);

/// Thread safety of the result: any number of threads.
std::function<std::int64_t(std::int64_t position)> make_order(
    const detail::LoaderSettings& settings,
    std::int64_t dataset_size,
    const OrderKey& key,
    bool use_seedable_sampler);

/// Throws `ArgumentError` when a sampler gave an index the dataset lacks.
void check_index(
    const char* giver, std::int64_t index, std::int64_t dataset_size);

}  // namespace accelerate
