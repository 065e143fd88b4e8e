// SPDX-License-Identifier: Apache-2.0
#include "data/index_order.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include "accelerate/error.h"
#include "accelerate/permutation.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

using Order = std::function<std::int64_t(std::int64_t)>;

// The order of Python's SeedableRandomSampler: one table per epoch.
Order seedable_order(std::int64_t size, const OrderKey& key) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>();
  generator.set_current_seed(key.epoch + key.seed);
  const at::Tensor table =
      at::randperm(size, generator, at::TensorOptions(at::kLong));
  const auto* indices =
      static_cast<const std::int64_t*>(table.const_data_ptr());
  return [table, indices](std::int64_t position) { return indices[position]; };
}

Order sampler_order(const Sampler& sampler, std::int64_t dataset_size) {
  return [sampler, dataset_size](std::int64_t position) {
    const std::int64_t index = sampler(position);
    check_index("sampler", index, dataset_size);
    return index;
  };
}

}  // namespace

std::string order_name(
    const detail::LoaderConfig& config, bool use_seedable_sampler) {
  if (config.batch_sampler) {
    return "batch_sampler";
  }
  if (config.sampler) {
    return "sampler";
  }
  if (config.shuffle) {
    return use_seedable_sampler ? "seedable" : "shuffle";
  }
  return "sequential";
}

std::int64_t unit_count(
    const detail::LoaderConfig& config, std::int64_t dataset_size) {
  return config.batch_sampler ? config.batch_sampler->size()
         : config.sampler     ? config.sampler->size()
                              : dataset_size;
}

Order make_order(
    const detail::LoaderConfig& config,
    std::int64_t dataset_size,
    const OrderKey& key,
    bool use_seedable_sampler) {
  if (config.sampler) {
    return sampler_order(*config.sampler, dataset_size);
  }
  if (!config.shuffle) {
    return [](std::int64_t position) { return position; };
  }
  return use_seedable_sampler ? seedable_order(dataset_size, key)
                              : Order(Permutation(dataset_size, key));
}

void check_index(
    const char* sampler_name, std::int64_t index, std::int64_t dataset_size) {
  if (index < 0 || index >= dataset_size) {
    throw ArgumentError(
        str_cat(
            "the ",
            sampler_name,
            " returned index ",
            index,
            " for a dataset of size ",
            dataset_size),
        dataset_size == 0
            ? std::string("return no indices for an empty dataset")
            : str_cat("return indices from 0 to ", dataset_size - 1));
  }
}

}  // namespace accelerate
