// SPDX-License-Identifier: Apache-2.0
#include "data/loader_impl.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>

#include "accelerate/error.h"
#include "accelerate/random.h"
#include "base/str_cat.h"
#include "comm/wait_limits.h"
#include "data/dispatch.h"
#include "data/index_order.h"
#include "data/map_steps.h"
#include "data/pinning.h"
#include "data/stream_steps.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

void check_number(const char* name, std::int64_t value, std::int64_t min) {
  if (value < min) {
    throw ArgumentError(
        str_cat("`", name, "` is ", value), str_cat("pass ", min, " or more"));
  }
}

void check_duration(const char* name, std::chrono::milliseconds value) {
  if (value < std::chrono::milliseconds(1)) {
    throw ArgumentError(
        str_cat("`", name, "` is ", name_duration(value)), "pass 1 ms or more");
  }
}

void check_exclusive(
    bool is_set, const char* name, bool other_is_set, const char* other_name) {
  if (is_set && other_is_set) {
    throw ArgumentError(
        str_cat("`", name, "` and `", other_name, "` are both set"),
        "pass only one of them");
  }
}

PoolOptions pool_options(const detail::LoaderConfig& config) {
  return {
      .threads = config.num_workers,
      .capacity = config.num_workers * config.prefetch_factor.value_or(2),
      .warn_after = config.warn_after,
      .timeout = config.timeout};
}

void check_config(const detail::LoaderConfig& config, bool is_stream) {
  check_number("batch_size", config.batch_size, 1);
  check_number("num_workers", config.num_workers, 0);
  if (config.prefetch_factor) {
    check_number("prefetch_factor", *config.prefetch_factor, 1);
    if (config.num_workers == 0) {
      throw ArgumentError(
          str_cat(
              "`prefetch_factor` is ",
              *config.prefetch_factor,
              ", but no worker prefetches: `num_workers` is 0"),
          "pass `num_workers` too, or leave out `prefetch_factor`");
    }
  }
  check_duration("timeout", config.timeout);
  check_duration("warn_after", config.warn_after);
  const bool sampler = config.sampler.has_value();
  const bool batches = config.batch_sampler.has_value();
  check_exclusive(config.shuffle, "shuffle", sampler, "sampler");
  check_exclusive(batches, "batch_sampler", config.shuffle, "shuffle");
  check_exclusive(batches, "batch_sampler", sampler, "sampler");
  check_exclusive(
      batches, "batch_sampler", config.batch_size != 1, "batch_size");
  check_exclusive(
      config.seed.has_value(),
      "seed",
      config.generator.has_value(),
      "generator");
  if (is_stream && (config.shuffle || sampler || batches)) {
    throw ArgumentError(
        "the order of a stream cannot be changed",
        "leave out `shuffle`, `sampler` and `batch_sampler`");
  }
}

std::uint64_t seed_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

}  // namespace

DataLoaderBase::Impl::Impl(
    std::shared_ptr<detail::BatchSource> source_, detail::LoaderConfig config_)
    : source(std::move(source_)), config(std::move(config_)) {
  check_config(config, !source->size());
}

DataLoaderBase::Impl::Impl(const Impl& other)
    : source(other.source),
      config(other.config),
      options(other.options),
      epoch(other.epoch),
      seed_(other.seed()),
      seed_is_loaded_(other.seed_is_loaded_),
      position_{.portion = {}, .used = other.start_},
      start_(other.start_),
      start_state_(other.start_state_),
      state_start_(other.state_start_) {
}

DataLoaderBase::Impl::~Impl() {
  if (options.gradient_state) {
    options.gradient_state->forget(this);
  }
}

std::optional<std::int64_t> DataLoaderBase::Impl::units() const {
  const auto dataset_size = source->size();
  return dataset_size ? std::optional(unit_count(config, *dataset_size))
                      : std::nullopt;
}

bool DataLoaderBase::Impl::dispatches() const {
  return options.num_processes > 1 &&
         options.configuration.dispatch_batches.value_or(!source->size());
}

ShardRules DataLoaderBase::Impl::rules(std::int64_t process_index) const {
  const std::int64_t parts =
      options.num_processes * options.devices_per_process;
  return {
      .batch_size = config.batch_size,
      .num_processes = options.num_processes,
      .process_index = process_index,
      .devices_per_process = options.devices_per_process,
      .split_batches = options.configuration.split_batches,
      // A single device has no other device to match.
      .even_batches = options.configuration.even_batches && parts > 1,
      .drop_last = config.drop_last,
      .dispatch_batches = dispatches()};
}

std::int64_t DataLoaderBase::Impl::size() const {
  const auto count = units();
  if (!count) {
    throw StateError(
        "a stream has no size: its length is unknown until it ends",
        "count the batches yourself, or pass the scheduler the number of "
        "steps");
  }
  return BatchSamplerShard(
             *count, rules(options.process_index), skips_ ? start_ : 0)
      .size();
}

std::int64_t DataLoaderBase::Impl::total_batch_size() const {
  return IterableDatasetShard(rules(0)).window();
}

std::uint64_t DataLoaderBase::Impl::seed() const {
  if (!seed_) {
    seed_ = config.seed        ? *config.seed
            : config.generator ? seed_of(*config.generator)
            : options.configuration.data_seed
                ? *options.configuration.data_seed
                : seed_of(at::detail::getDefaultCPUGenerator());
  }
  return *seed_;
}

void DataLoaderBase::Impl::check_not_in_loop(const char* caller) const {
  if (loops > 0) {
    throw StateError(
        str_cat(caller, " was called inside a loop over the loader"),
        "call it before the loop");
  }
}

void DataLoaderBase::Impl::skip(std::int64_t batches) {
  check_number("batches", batches, 0);
  start_ += batches * total_batch_size();
  if (const auto count = units()) {
    start_ = std::min(start_, *count);
  }
  position_.used = start_;
  position_.stream_state = {};
  skips_ = true;
}

std::unique_ptr<StepReader> DataLoaderBase::Impl::begin_reading() {
  synchronize_generators();
  const std::int64_t start = std::exchange(start_, 0);
  position_ = {.portion = {}, .used = start};
  skips_ = false;
  const bool reads = !dispatches() || options.process_index == 0;
  std::vector<ShardRules> shares;
  if (!dispatches()) {
    shares.push_back(rules(options.process_index));
  } else {
    for (std::int64_t r = 0; r < options.num_processes; ++r) {
      shares.push_back(rules(r));
    }
  }
  auto reader = reads ? make_reader(start, shares) : nullptr;
  if (!dispatches()) {
    return reader;
  }
  return std::make_unique<Dispatch>(options.group, source, std::move(reader));
}

std::unique_ptr<StepReader> DataLoaderBase::Impl::make_reader(
    std::int64_t start, const std::vector<ShardRules>& shares) {
  source->begin_epoch(epoch, config.num_workers);
  const bool pins = config.pin_memory.value_or(
      options.device && uses_pinned_memory(*options.device));
  if (pins) {
    check_pinning();
  }
  const auto dataset_size = source->size();
  if (!dataset_size) {
    return std::make_unique<StreamSteps>(StreamEpoch{
        .source = source,
        .start = start,
        .state = std::exchange(start_state_, Json()),
        .state_start = state_start_,
        .rules = shares,
        .pin_memory = pins,
        .pool = pool_options(config)});
  }
  if (config.sampler) {
    config.sampler->set_epoch(epoch);
  }
  if (config.batch_sampler) {
    config.batch_sampler->set_epoch(epoch);
  }
  const OrderKey key{seed(), static_cast<std::uint64_t>(epoch)};
  return std::make_unique<MapSteps>(MapEpoch{
      .source = source,
      .order = make_order(
          config,
          *dataset_size,
          key,
          options.configuration.use_seedable_sampler),
      .batch_sampler = config.batch_sampler,
      .dataset_size = *dataset_size,
      .units = *units(),
      .start = std::min(start, *units()),
      .key = key,
      .rules = shares,
      .pin_memory = pins,
      .pool = pool_options(config)});
}

void DataLoaderBase::Impl::synchronize_generators() {
  if (options.num_processes == 1) {
    return;
  }
  for (const RngType type : options.rng_types) {
    // The sample order needs no generator state, because it is computed from
    // the seed.
    if (type != RngType::generator || config.generator) {
      synchronize_rng_state(type, config.generator, options.group);
    }
  }
}

void DataLoaderBase::Impl::take(const Portion& portion, const Step& step) {
  position_ = {
      .portion = portion, .used = step.used, .stream_state = step.stream_state};
  position_.portion.batch = nullptr;  // The loop owns the batch.
}

void DataLoaderBase::Impl::complete_epoch() {
  ++epoch;
  position_.used = 0;
  position_.stream_state = {};
}

}  // namespace accelerate
