// SPDX-License-Identifier: Apache-2.0
// What a loader agrees on with its peers, and what a checkpoint keeps of it.
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

// Throws on every process when they differ in a value.
void check_equal(
    const char* what, const char* key, const std::vector<Json>& all) {
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
            "the processes prepare a data loader with different ", what, table),
        "prepare the same loaders in the same order on every process");
  }
}

// Calls `body` with the user's order, if it has a state.
template <typename Body>
void with_stateful_sampler(
    const detail::LoaderSettings& settings, const Body& body) {
  if (settings.sampler && settings.sampler->has_state()) {
    body(*settings.sampler);
  }
  if (settings.batch_sampler && settings.batch_sampler->has_state()) {
    body(*settings.batch_sampler);
  }
}

}  // namespace

void DataLoaderBase::Impl::check_shard(const ShardOptions& wanted) const {
  Impl trial(source, settings);
  trial.options.process_index = wanted.process_index;
  trial.options.num_processes = wanted.num_processes;
  trial.options.configuration = wanted.configuration;
  IterableDatasetShard(trial.rules(wanted.process_index));
  if (wanted.configuration.split_batches && settings.batch_sampler) {
    throw ArgumentError(
        "split_batches needs a batch_size, and a batch sampler has none",
        "leave split_batches out: whole batches go to the processes in turn");
  }
  if (!trial.dispatches()) {
    return;
  }
  if (!source->can_travel()) {
    throw ArgumentError(
        "dispatch_batches needs batches that can be sent: nests of tensors "
        "with a default constructor",
        "set dispatch_batches to false, or give the batch a "
        "`for_each_tensor` function");
  }
  if (wanted.group.size() != wanted.num_processes ||
      wanted.group.rank() != wanted.process_index) {
    throw ArgumentError(
        str_cat(
            "dispatch_batches needs a group of the ",
            wanted.num_processes,
            " processes that share the data, got rank ",
            wanted.group.rank(),
            " of a group of ",
            wanted.group.size()),
        "pass their group, or set dispatch_batches to false");
  }
}

void DataLoaderBase::Impl::shard(const ShardOptions& wanted) {
  refuse_in_loop("shard");
  check_shard(wanted);
  if (options.gradient_state &&
      options.gradient_state != wanted.gradient_state) {
    options.gradient_state->forget(this);
  }
  if (!seed_is_loaded_ &&
      wanted.configuration.data_seed != options.configuration.data_seed) {
    seed_.reset();
  }
  options = wanted;
  if (options.num_processes > 1 && options.group.size() > 1) {
    agree();
  }
}

// Seeds that somebody chose must be equal; otherwise rank 0's holds.
void DataLoaderBase::Impl::agree() {
  const bool chosen = settings.seed || options.configuration.data_seed;
  Json mine = Json::object(
      {{"size", dispatches() ? Json() : or_null(units())},
       {"order",
        order_name(settings, options.configuration.use_seedable_sampler)},
       {"batch_size", settings.batch_size},
       {"chosen", chosen ? Json(std::to_string(seed())) : Json()},
       {"seed", std::to_string(seed())}});
  const auto all = options.group.gather_object({mine});
  check_equal("dataset sizes", "size", all);
  check_equal("orders", "order", all);
  check_equal("batch sizes", "batch_size", all);
  check_equal("seeds", "chosen", all);
  seed_ = std::stoull(all.front().at("seed").as_string());
}

void DataLoaderBase::Impl::set_epoch(std::int64_t wanted) {
  refuse_in_loop("set_epoch");
  if (wanted < 0) {
    throw ArgumentError(
        str_cat("set_epoch: epoch is ", wanted), "count epochs from 0");
  }
  if (wanted != epoch) {
    start_ = 0;
    start_state_ = {};
    place_.used = 0;
    place_.stream_state = {};
  }
  epoch = wanted;
}

Json DataLoaderBase::Impl::state_dict() const {
  Json state = Json::object(
      {{"version", 1},
       // As text: JSON's numbers have a sign.
       {"seed", std::to_string(seed())},
       {"epoch", epoch},
       {settings.batch_sampler ? "batches_used" : "samples_used", place_.used},
       {"size", or_null(units())},
       {"order",
        order_name(settings, options.configuration.use_seedable_sampler)}});
  if (!place_.stream_state.is_null()) {
    state["stream"] = place_.stream_state;
  }
  with_stateful_sampler(settings, [&](const auto& sampler) {
    state["sampler"] = sampler.state_dict();
  });
  return state;
}

void DataLoaderBase::Impl::load_state_dict(const Json& state) {
  refuse_in_loop("load_state_dict");
  const auto version = state.at("version").as_integer();
  if (version != 1) {
    throw FormatError(
        str_cat(
            "the data loader's state has version ",
            version,
            ", this build reads version 1"),
        "load it with the version of the library that saved it");
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
              ", this one has ",
              current.at(key).dump()),
          "load it into a loader over the same data, made in the same way");
    }
  }
  const auto used =
      state.at(settings.batch_sampler ? "batches_used" : "samples_used")
          .as_integer();
  const auto in_epoch = state.at("epoch").as_integer();
  if (used < 0 || in_epoch < 0 || (units() && used > *units())) {
    throw FormatError(
        str_cat(
            "the data loader's state is at unit ",
            used,
            " of epoch ",
            in_epoch,
            ", outside the data"),
        "use a state that `state_dict()` returned");
  }
  const std::string text = state.at("seed").as_string();
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos ||
      text.size() > 20) {
    throw FormatError(
        str_cat("the data loader's state has seed `", text, "`"),
        "use a state that `state_dict()` returned");
  }
  const Json* sampler = state.find("sampler");
  if ((sampler != nullptr) != (current.find("sampler") != nullptr)) {
    throw FormatError(
        sampler != nullptr
            ? "the data loader's state has one of its sampler, which this "
              "sampler cannot load"
            : "the data loader's state has none of its sampler, which this "
              "sampler needs",
        "give the loader the sampler that it had");
  }
  with_stateful_sampler(
      settings, [&](const auto& order) { order.load_state_dict(*sampler); });
  seed_ = std::stoull(text);
  epoch = in_epoch;
  seed_is_loaded_ = true;
  const Json* stream = state.find("stream");
  place_.used = used;
  place_.stream_state = stream != nullptr ? *stream : Json();
  start_ = used;
  start_state_ = place_.stream_state;
  state_start_ = used;
}

}  // namespace accelerate
