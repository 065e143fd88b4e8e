// SPDX-License-Identifier: Apache-2.0
#include "accelerate/detail/batch_source.h"

#include <exception>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Exception.h>

#include "accelerate/detail/typed_sources.h"
#include "accelerate/error.h"
#include "base/str_cat.h"
#include "data/mix.h"

namespace accelerate::detail {
namespace {

// Rethrows the current exception, if it is an `E`, with `where` in front of its
// message.
template <typename E>
void rethrow_if(const std::string& where) {
  try {
    throw;
  } catch (const E& error) {
    throw E(str_cat(where, ": ", error.what()), error.hint(), error.where());
  } catch (...) {
  }
}

template <typename... Es>
void rethrow_if_any(const std::string& where) {
  (rethrow_if<Es>(where), ...);
}

[[noreturn]] void rethrow_with(const std::string& where) {
  // Derived types come first: each handler also catches derived types.
  rethrow_if_any<
      ArgumentError,
      ConfigError,
      StateError,
      UnsupportedError,
      IoError,
      FormatError,
      DistributedError,
      MismatchError,
      RankError,
      OutOfMemoryError,
      InternalError,
      Error>(where);
  try {
    throw;
  } catch (c10::Error& error) {
    error.add_context(where);
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(str_cat(where, ": ", error.what())));
  } catch (...) {
    std::throw_with_nested(Error(str_cat(
        where, ": an exception that does not derive from std::exception")));
  }
}

}  // namespace

BatchSource::~BatchSource() = default;

Json BatchSource::stream_state() const {
  return {};
}

void BatchSource::load_stream_state(const Json& /*state*/) {
}

std::string ReadProgress::describe() const {
  const auto sample = sample_.load(std::memory_order_relaxed);
  return sample == kCollating ? "a batch that is being collated"
                              : str_cat("sample ", sample, " of the dataset");
}

void rethrow_for_sample(std::int64_t index) {
  rethrow_with(str_cat("sample ", index, " of the dataset"));
}

void rethrow_for_batch(std::span<const std::int64_t> indices) {
  constexpr std::size_t kMaxListed = 8;
  std::string list;
  for (std::size_t i = 0; i < indices.size() && i < kMaxListed; ++i) {
    list += str_cat(i > 0 ? ", " : "", indices[i]);
  }
  rethrow_with(str_cat(
      "the batch of samples ", list, indices.size() > kMaxListed ? ", …" : ""));
}

void refuse_workers(std::int64_t workers) {
  throw ArgumentError(
      str_cat(
          "this dataset cannot be copied for each of ", workers, " workers"),
      "set `num_workers` to 0 or 1, or make the dataset's `get` const and "
      "thread-safe");
}

at::Generator make_generator() {
  return at::make_generator<at::CPUGeneratorImpl>();
}

void seed_for_sample(
    at::Generator& generator, const OrderKey& key, std::int64_t index) {
  generator.set_current_seed(
      mix(mix(key.seed, key.epoch), static_cast<std::uint64_t>(index)));
}

}  // namespace accelerate::detail
