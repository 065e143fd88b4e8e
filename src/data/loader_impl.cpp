// SPDX-License-Identifier: Apache-2.0
#include "data/loader_impl.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>

#include "accelerate/error.h"
#include "accelerate/random.h"
#include "base/str_cat.h"
#include "comm/patience.h"
#include "data/dispatch.h"
#include "data/index_order.h"
#include "data/map_steps.h"
#include "data/pinning.h"
#include "data/stream_steps.h"

namespace accelerate {
namespace {

void check_number(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw ArgumentError(
        str_cat("`", name, "` is ", value),
        str_cat("pass ", least, " or more"));
  }
}

void check_duration(const char* name, std::chrono::milliseconds value) {
  if (value < std::chrono::milliseconds(1)) {
    throw ArgumentError(
        str_cat("`", name, "` is ", name_duration(value)), "pass 1 ms or more");
  }
}

void check_exclusive(
    bool one, const char* name, bool other, const char* other_name) {
  if (one && other) {
    throw ArgumentError(
        str_cat("`", name, "` and `", other_name, "` are both given"),
        "pass one of them");
  }
}

std::int64_t prefetch_factor(const detail::LoaderSettings& settings) {
  return settings.prefetch_factor.value_or(2);
}

void check_settings(const detail::LoaderSettings& settings, bool is_stream) {
  check_number("batch_size", settings.batch_size, 1);
  check_number("num_workers", settings.num_workers, 0);
  if (settings.prefetch_factor) {
    check_number("prefetch_factor", *settings.prefetch_factor, 1);
    if (settings.num_workers == 0) {
      throw ArgumentError(
          str_cat(
              "`prefetch_factor` is ",
              *settings.prefetch_factor,
              ", but nobody reads ahead: `num_workers` is 0"),
          "pass `num_workers` too, or leave it out");
    }
  }
  check_duration("timeout", settings.timeout);
  check_duration("warn_after", settings.warn_after);
  const bool sampler = settings.sampler.has_value();
  const bool batches = settings.batch_sampler.has_value();
  check_exclusive(settings.shuffle, "shuffle", sampler, "sampler");
  check_exclusive(batches, "batch_sampler", settings.shuffle, "shuffle");
  check_exclusive(batches, "batch_sampler", sampler, "sampler");
  check_exclusive(
      batches, "batch_sampler", settings.batch_size != 1, "batch_size");
  check_exclusive(
      settings.seed.has_value(),
      "seed",
      settings.generator.has_value(),
      "generator");
  if (is_stream && (settings.shuffle || sampler || batches)) {
    throw ArgumentError(
        "a stream has one order, its own",
        "leave out `shuffle`, `sampler` and `batch_sampler`");
  }
}

std::uint64_t seed_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

}  // namespace

DataLoaderBase::Impl::Impl(
    std::shared_ptr<detail::BatchSource> source_,
    detail::LoaderSettings settings_)
    : source(std::move(source_)), settings(std::move(settings_)) {
  check_settings(settings, !source->size());
}

DataLoaderBase::Impl::Impl(const Impl& other)
    : source(other.source),
      settings(other.settings),
      options(other.options),
      epoch(other.epoch),
      seed_(other.seed()),
      seed_is_loaded_(other.seed_is_loaded_),
      place_{.portion = {}, .used = other.start_},
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
  return dataset_size ? std::optional(unit_count(settings, *dataset_size))
                      : std::nullopt;
}

bool DataLoaderBase::Impl::dispatches() const {
  return options.num_processes > 1 &&
         options.configuration.dispatch_batches.value_or(!source->size());
}

ShardRules DataLoaderBase::Impl::rules(std::int64_t process_index) const {
  return {
      .batch_size = settings.batch_size,
      .num_processes = options.num_processes,
      .process_index = process_index,
      .split_batches = options.configuration.split_batches,
      // One process has nobody to be even with.
      .even_batches =
          options.configuration.even_batches && options.num_processes > 1,
      .drop_last = settings.drop_last,
      .dispatch_batches = dispatches()};
}

std::int64_t DataLoaderBase::Impl::size() const {
  const auto count = units();
  if (!count) {
    throw StateError(
        "a stream has no size: its end is known when it is reached",
        "count the batches, or give the scheduler its number of steps");
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
    seed_ = settings.seed        ? *settings.seed
            : settings.generator ? seed_of(*settings.generator)
            : options.configuration.data_seed
                ? *options.configuration.data_seed
                : seed_of(at::detail::getDefaultCPUGenerator());
  }
  return *seed_;
}

void DataLoaderBase::Impl::refuse_in_loop(const char* what) const {
  if (loops > 0) {
    throw StateError(
        str_cat(what, " inside a loop over the loader"),
        "call it before the loop");
  }
}

void DataLoaderBase::Impl::skip(std::int64_t batches) {
  check_number("batches", batches, 0);
  start_ += batches * total_batch_size();
  if (const auto count = units()) {
    start_ = std::min(start_, *count);
  }
  place_.used = start_;
  place_.stream_state = {};
  skips_ = true;
}

std::unique_ptr<StepReader> DataLoaderBase::Impl::begin_reading() {
  synchronize_generators();
  const std::int64_t start = std::exchange(start_, 0);
  place_ = {.portion = {}, .used = start};
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
  source->begin_epoch(epoch, settings.num_workers);
  const bool pins =
      settings.pin_memory.value_or(options.device && !options.device->is_cpu());
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
        .ahead = settings.num_workers * prefetch_factor(settings),
        .pin_memory = pins,
        .warn_after = settings.warn_after,
        .timeout = settings.timeout});
  }
  if (settings.sampler) {
    settings.sampler->set_epoch(epoch);
  }
  if (settings.batch_sampler) {
    settings.batch_sampler->set_epoch(epoch);
  }
  const OrderKey key{seed(), static_cast<std::uint64_t>(epoch)};
  return std::make_unique<MapSteps>(MapEpoch{
      .source = source,
      .order = make_order(
          settings,
          *dataset_size,
          key,
          options.configuration.use_seedable_sampler),
      .batch_sampler = settings.batch_sampler,
      .dataset_size = *dataset_size,
      .units = *units(),
      .start = std::min(start, *units()),
      .key = key,
      .rules = shares,
      .num_workers = settings.num_workers,
      .prefetch_factor = prefetch_factor(settings),
      .pin_memory = pins,
      .warn_after = settings.warn_after,
      .timeout = settings.timeout});
}

void DataLoaderBase::Impl::synchronize_generators() {
  if (options.num_processes == 1) {
    return;
  }
  for (const RngType type : options.rng_types) {
    // The order needs no generator's state: it comes from the seed.
    if (type != RngType::generator || settings.generator) {
      synchronize_rng_state(type, settings.generator, options.group);
    }
  }
}

void DataLoaderBase::Impl::take(const Portion& portion, const Step& step) {
  place_ = {
      .portion = portion, .used = step.used, .stream_state = step.stream_state};
  place_.portion.batch = nullptr;  // The loop owns it.
}

void DataLoaderBase::Impl::complete_epoch() {
  ++epoch;
  place_.used = 0;
  place_.stream_state = {};
}

}  // namespace accelerate
