// SPDX-License-Identifier: Apache-2.0
// The interface between the typed part of a DataLoader and its compiled core.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"
#include "accelerate/permutation.h"
#include "accelerate/sampler.h"

namespace accelerate::detail {

/// A sample or a batch without its type.
using Opaque = std::shared_ptr<void>;

/// The options of a `DataLoader` that do not depend on its types.
struct LoaderConfig {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  std::int64_t num_workers = 0;
  std::optional<std::int64_t> prefetch_factor;
  std::optional<bool> pin_memory = std::nullopt;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  std::optional<Sampler> sampler;
  std::optional<BatchSampler> batch_sampler;
  std::optional<std::uint64_t> seed;
  std::optional<at::Generator> generator;
};

/// Reports to a waiting thread what another thread is reading.
class alignas(64) ReadProgress {  // Has its own cache line.
 public:
  void read(std::int64_t sample) noexcept {
    sample_.store(sample, std::memory_order_relaxed);
  }
  void collate() noexcept { read(kCollating); }
  /// Returns text such as "sample 17 of the dataset" or "a batch that is being
  /// collated".
  ACCELERATE_API std::string describe() const;

 private:
  static constexpr std::int64_t kCollating = -1;
  std::atomic<std::int64_t> sample_ = 0;
};

/// The samples to read for one batch.
struct LoadRequest {
  std::span<const std::int64_t> indices;
  OrderKey key;
  /// The index of the requesting thread.
  std::int64_t worker = 0;
  /// Where the requesting thread reports what it is reading.
  ReadProgress* progress = nullptr;
};

/// A dataset and its collate function.
class ACCELERATE_API BatchSource {
 public:
  virtual ~BatchSource();

  /// Returns the number of samples in the dataset; empty for a stream.
  virtual std::optional<std::int64_t> size() const = 0;
  /// Starts an epoch that `workers` threads will read.
  virtual void begin_epoch(std::int64_t epoch, std::int64_t workers) = 0;

  /// Reads a batch. Several threads may call this function at once. It must not
  /// be called for a stream.
  virtual Opaque load(const LoadRequest& request) = 0;

  /// Reads the next sample of a stream; returns null at the end of the stream.
  virtual Opaque next() = 0;
  /// Returns the position of a stream, which `load_stream_state` restores; null
  /// if the stream cannot save its position.
  virtual Json stream_state() const;
  virtual void load_stream_state(const Json& state);
  virtual Opaque collate(std::span<const Opaque> samples) = 0;

  /// Returns whether a batch is a nest: tensors or nested containers of tensors
  /// (see nest.h).
  virtual bool is_nest() const = 0;
  /// Returns whether a batch can be sent to another process: `describe` returns
  /// its structure, and `build` recreates the batch from this structure.
  virtual bool can_be_sent() const = 0;
  virtual std::vector<Tensor> tensors(void* batch) const = 0;
  virtual void set_tensors(
      void* batch, const std::vector<Tensor>& tensors) const = 0;
  virtual Json describe(void* batch) const = 0;
  virtual Opaque build(const Json& structure) const = 0;
};

/// Rethrows the current exception with the sample's index in its message.
/// Exceptions from this library and from LibTorch keep their type; other
/// exceptions become an `Error` with the original exception nested in it.
[[noreturn]] ACCELERATE_API void rethrow_for_sample(std::int64_t index);
/// Rethrows the current exception with the indices of the batch in its message.
[[noreturn]] ACCELERATE_API void rethrow_for_batch(
    std::span<const std::int64_t> indices);

/// Creates a generator for random augmentation. `seed_for_sample` seeds the
/// generator for one sample, the same way in every run with the same key.
ACCELERATE_API at::Generator make_generator();
ACCELERATE_API void seed_for_sample(
    at::Generator& generator, const OrderKey& key, std::int64_t index);

}  // namespace accelerate::detail
