// SPDX-License-Identifier: Apache-2.0
// The seam between the typed half of a DataLoader and its compiled core.
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

/// A `DataLoader`'s options but for those with types.
struct LoaderSettings {
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

/// What a thread is reading, for whoever waits for it.
class alignas(64) ReadProgress {  // A cache line each: threads write it often.
 public:
  void read(std::int64_t sample) noexcept {
    sample_.store(sample, std::memory_order_relaxed);
  }
  void join() noexcept { read(kJoining); }
  /// "sample 17 of the dataset" or "a batch that is being joined".
  ACCELERATE_API std::string describe() const;

 private:
  static constexpr std::int64_t kJoining = -1;
  std::atomic<std::int64_t> sample_ = 0;
};

/// Samples to read for one batch.
struct LoadRequest {
  std::span<const std::int64_t> indices;
  OrderKey key;
  /// Which thread asks, from 0.
  std::int64_t worker = 0;
  /// Where that thread says what it reads.
  ReadProgress* progress = nullptr;
};

/// A dataset and the way its samples become batches.
class ACCELERATE_API BatchSource {
 public:
  virtual ~BatchSource();

  /// Samples of the dataset; nothing for a stream.
  virtual std::optional<std::int64_t> size() const = 0;
  /// An epoch begins, to be read by that many threads.
  virtual void begin_epoch(std::int64_t epoch, std::int64_t workers) = 0;

  /// Reads a batch. Called by several threads at once; not for streams.
  virtual Opaque load(const LoadRequest& request) = 0;

  /// Reads the next sample of a stream; null at its end.
  virtual Opaque next() = 0;
  /// Where a stream is, or null; it can be taken there again.
  virtual Json stream_state() const;
  virtual void load_stream_state(const Json& state);
  virtual Opaque collate(std::span<const Opaque> samples) = 0;

  /// Whether a batch is a nest of tensors, and one that can be sent.
  virtual bool is_nest() const = 0;
  virtual bool can_travel() const = 0;
  virtual std::vector<Tensor> tensors(void* batch) const = 0;
  virtual void set_tensors(
      void* batch, const std::vector<Tensor>& tensors) const = 0;
  virtual Json describe(void* batch) const = 0;
  virtual Opaque build(const Json& form) const = 0;
};

/// Rethrows the exception being handled with the sample in its message: our
/// types and LibTorch's keep theirs, others become `Error`s with the original
/// nested in them.
[[noreturn]] ACCELERATE_API void rethrow_for_sample(std::int64_t index);
/// Rethrows the exception being handled with the indices of its batch.
[[noreturn]] ACCELERATE_API void rethrow_for_batch(
    std::span<const std::int64_t> indices);

/// Random numbers for one sample: the same in every run with this seed.
ACCELERATE_API at::Generator make_generator();
ACCELERATE_API void seed_for_sample(
    at::Generator& generator, const OrderKey& key, std::int64_t index);

}  // namespace accelerate::detail
