// SPDX-License-Identifier: Apache-2.0
// How loaders agree across ranks, and the loader state in a checkpoint.
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "data/index_order.h"
#include "data/loader_impl.h"

namespace accelerate {
namespace {

Json or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json();
}

// Throws on every process when a value differs between processes.
void check_equal(
    const char* property, const char* key, const std::vector<Json>& all) {
  std::set<std::string> values;
  std::string table;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::string value = all[r].at(key).dump();
    values.insert(value);
    table += str_cat("\n  rank ", r, ": ", value);
  }
  if (values.size() > 1) {
    throw MismatchError(
        str_cat(
            "the processes prepare data loaders with different ",
            property,
            table),
        "prepare the same loaders in the same order on every process");
  }
}

// Calls `body` with the user's sampler, if it has a state.
template <typename Body>
void with_stateful_sampler(
    const detail::LoaderConfig& config, const Body& body) {
  if (config.sampler && config.sampler->has_state()) {
    body(*config.sampler);
  }
  if (config.batch_sampler && config.batch_sampler->has_state()) {
    body(*config.batch_sampler);
  }
}

}  // namespace

void DataLoaderBase::Impl::check_shard(const ShardOptions& requested) const {
  Impl trial(source, config);
  trial.options.process_index = requested.process_index;
  trial.options.num_processes = requested.num_processes;
  trial.options.devices_per_process = requested.devices_per_process;
  trial.options.configuration = requested.configuration;
  IterableDatasetShard(trial.rules(requested.process_index));
  if (requested.configuration.split_batches && config.batch_sampler) {
    throw ArgumentError(
        "`split_batches` needs a `batch_size`, but a batch sampler has none",
        "leave out `split_batches`; the processes then take turns receiving "
        "whole batches");
  }
  if (!trial.dispatches()) {
    return;
  }
  if (!source->can_be_sent()) {
    throw ArgumentError(
        "`dispatch_batches` needs batches that are default-constructible nests "
        "of tensors",
        "set `dispatch_batches` to false, or define a `for_each_tensor` "
        "function for the batch type");
  }
  if (requested.group.size() != requested.num_processes ||
      requested.group.rank() != requested.process_index) {
    throw ArgumentError(
        str_cat(
            "`dispatch_batches` needs a process group in which this process "
            "has rank ",
            requested.process_index,
            " of ",
            requested.num_processes,
            ", but got a process group in which it has rank ",
            requested.group.rank(),
            " of ",
            requested.group.size()),
        "pass the process group of the processes that share the data, or set "
        "`dispatch_batches` to false");
  }
}

void DataLoaderBase::Impl::shard(const ShardOptions& requested) {
  check_not_in_loop("shard");
  check_shard(requested);
  if (options.gradient_state &&
      options.gradient_state != requested.gradient_state) {
    options.gradient_state->forget(this);
  }
  if (!seed_is_loaded_ &&
      requested.configuration.data_seed != options.configuration.data_seed) {
    seed_.reset();
  }
  options = requested;
  if (options.num_processes > 1 && options.group.size() > 1) {
    agree_on_config();
  }
}

// A seed that the user chose must be the same on every rank. If the user chose
// none, all ranks use the seed of rank 0.
void DataLoaderBase::Impl::agree_on_config() {
  const bool chosen = config.seed || options.configuration.data_seed;
  Json local = Json::object(
      {{"size", dispatches() ? Json() : or_null(units())},
       {"order",
        order_name(config, options.configuration.use_seedable_sampler)},
       {"batch_size", config.batch_size},
       {"chosen", chosen ? Json(std::to_string(seed())) : Json()},
       {"seed", std::to_string(seed())}});
  const auto all = options.group.gather_object({local});
  check_equal("dataset sizes", "size", all);
  check_equal("sample orders", "order", all);
  check_equal("batch sizes", "batch_size", all);
  check_equal("seeds", "chosen", all);
  seed_ = std::stoull(all.front().at("seed").as_string());
}

void DataLoaderBase::Impl::set_epoch(std::int64_t requested) {
  check_not_in_loop("set_epoch");
  if (requested < 0) {
    throw ArgumentError(
        str_cat("set_epoch: epoch is ", requested), "pass 0 or more");
  }
  if (requested != epoch) {
    start_ = 0;
    start_state_ = {};
    position_.used = 0;
    position_.stream_state = {};
  }
  epoch = requested;
}

Json DataLoaderBase::Impl::state_dict() const {
  Json state = Json::object(
      {{"version", 1},
       // A string, because the seed is unsigned and `Json` integers are signed.
       {"seed", std::to_string(seed())},
       {"epoch", epoch},
       {config.batch_sampler ? "batches_used" : "samples_used", position_.used},
       {"size", or_null(units())},
       {"order",
        order_name(config, options.configuration.use_seedable_sampler)}});
  if (!position_.stream_state.is_null()) {
    state["stream"] = position_.stream_state;
  }
  with_stateful_sampler(config, [&](const auto& sampler) {
    state["sampler"] = sampler.state_dict();
  });
  return state;
}

void DataLoaderBase::Impl::load_state_dict(const Json& state) {
  check_not_in_loop("load_state_dict");
  const auto version = state.at("version").as_integer();
  if (version != 1) {
    throw FormatError(
        str_cat(
            "the data loader's state has version ",
            version,
            ", but this build reads version 1"),
        "load the state with the library version that saved it");
  }
  const Json current = state_dict();
  for (const char* key : {"size", "order"}) {
    if (!(state.at(key) == current.at(key))) {
      throw ArgumentError(
          str_cat(
              "the state belongs to a data loader with ",
              key,
              " ",
              state.at(key).dump(),
              ", but this loader has ",
              current.at(key).dump()),
          "load the state into a loader with the same dataset and options");
    }
  }
  const auto used =
      state.at(config.batch_sampler ? "batches_used" : "samples_used")
          .as_integer();
  const auto in_epoch = state.at("epoch").as_integer();
  if (used < 0 || in_epoch < 0 || (units() && used > *units())) {
    throw FormatError(
        str_cat(
            "the data loader's state is at position ",
            used,
            " of epoch ",
            in_epoch,
            ", outside the dataset"),
        "use a state that `state_dict()` returned");
  }
  const std::string text = state.at("seed").as_string();
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos ||
      text.size() > 20) {
    throw FormatError(
        str_cat(
            "the data loader's state has seed `",
            text,
            "`, which is not a number"),
        "use a state that `state_dict()` returned");
  }
  const Json* sampler = state.find("sampler");
  if ((sampler != nullptr) != (current.find("sampler") != nullptr)) {
    throw FormatError(
        sampler != nullptr
            ? "the data loader's state contains a sampler state, but this "
              "loader's sampler cannot load one"
            : "the data loader's state contains no sampler state, but this "
              "loader's sampler needs one",
        "use the same sampler as the saved loader");
  }
  with_stateful_sampler(
      config, [&](const auto& order) { order.load_state_dict(*sampler); });
  seed_ = std::stoull(text);
  epoch = in_epoch;
  seed_is_loaded_ = true;
  const Json* stream = state.find("stream");
  position_.used = used;
  position_.stream_state = stream != nullptr ? *stream : Json();
  start_ = used;
  start_state_ = position_.stream_state;
  state_start_ = used;
}

}  // namespace accelerate
