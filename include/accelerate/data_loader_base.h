// SPDX-License-Identifier: Apache-2.0
// The base class of all data loaders, independent of dataset and batch type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Device.h>

#include "accelerate/data_loader_configuration.h"
#include "accelerate/detail/batch_source.h"
#include "accelerate/export.h"
#include "accelerate/group.h"
#include "accelerate/json.h"
#include "accelerate/rng_type.h"

namespace accelerate {

class GradientState;  // Private: the current step of an Accelerator.

/// How several processes share the data of a loader; see
/// `DataLoaderBase::shard`.
struct ShardOptions {
  /// The index of this process among the processes that get *different* data.
  /// Processes that get the same data, because each of them holds a part of one
  /// model, pass the same index.
  std::int64_t process_index = 0;
  std::int64_t num_processes = 1;
  /// The number of devices that share the batches of a process. Each device
  /// gets `batch_size` samples, as if it had its own process.
  std::int64_t devices_per_process = 1;
  /// The process group of the processes that share the data.
  Group group = {};
  /// The device to which batches are moved. If not set, batches stay on the
  /// device on which the dataset created them. Only batches that are tensors or
  /// nested containers of tensors (see nest.h) are moved.
  std::optional<c10::Device> device = std::nullopt;
  DataLoaderConfiguration configuration = {};
  /// Random number generators whose state is copied from the main process when
  /// a loop begins.
  std::vector<RngType> rng_types = {};
  std::shared_ptr<GradientState> gradient_state = nullptr;
};

/// A data loader for any dataset and batch type. `DataLoader` derives from this
/// class.
///
/// Thread safety: use a loader only from the thread that runs the training
/// loop.
class ACCELERATE_API DataLoaderBase {
 public:
  DataLoaderBase(DataLoaderBase&&) noexcept;
  DataLoaderBase& operator=(DataLoaderBase&&) noexcept;
  virtual ~DataLoaderBase();

  /// Returns the number of batches per epoch on this process.
  ///
  /// Throws `StateError` for a stream, whose length is unknown.
  std::int64_t size() const;
  /// Returns the number of samples in the dataset, if known.
  std::optional<std::int64_t> dataset_size() const;
  /// Returns the number of samples that all processes together use in a step.
  /// With a batch sampler, counts batches instead of samples.
  std::int64_t total_batch_size() const;

  /// Returns the number of rows in the current batch or, after the loop, in the
  /// last batch.
  std::int64_t rows() const;
  /// Returns how many rows of the current batch are real. The remaining rows
  /// repeat other samples, so that every process has a batch of the same size.
  std::int64_t valid_rows() const;
  /// Returns whether the current batch is the last batch of the epoch on this
  /// process.
  bool end_of_dataloader() const;

  /// Returns the epoch of the current or next loop; each complete loop
  /// increases it by one.
  std::int64_t epoch() const;
  /// Sets the epoch of the next loop, which determines the sample order. A
  /// position that `load_state_dict` restored is kept only if it belongs to the
  /// same epoch.
  void set_epoch(std::int64_t epoch);

  /// Returns the seed, the epoch, and how many samples of the epoch all
  /// processes together have used, including the current batch. The size of the
  /// state does not depend on the size of the dataset.
  Json state_dict() const;
  /// Makes the next loop continue at the position in `state`, even with a
  /// different number of processes.
  ///
  /// Throws `FormatError` for an invalid state, `ArgumentError` for a state
  /// from another dataset or order, and `StateError` inside a loop.
  void load_state_dict(const Json& state);

  /// Gives this process its share of the batches. `Accelerator::prepare` calls
  /// this function. A second call with the same options is harmless; a call
  /// with other options replaces the earlier options.
  ///
  /// Collective. Throws `ArgumentError` for options that do not fit the loader,
  /// and `StateError` inside a loop. Throws `MismatchError` with the values
  /// from each process if dataset sizes or seeds differ between processes.
  void shard(const ShardOptions& options);

  /// Returns a pointer that expires when the loader is destroyed.
  std::weak_ptr<const void> lifetime() const { return impl_; }

  /// Returns whether the last step is completed with repeated samples.
  /// `set_even_batches` applies only to loops that begin later.
  bool even_batches() const;
  void set_even_batches(bool even);

 protected:
  DataLoaderBase(
      std::shared_ptr<detail::BatchSource> source, detail::LoaderConfig config);
  class Impl;
  /// Returns a separate loader for the same dataset. Its first loop skips the
  /// first `batches` batches.
  std::shared_ptr<Impl> copy_without(std::int64_t batches) const;
  explicit DataLoaderBase(std::shared_ptr<Impl> impl);

  /// A running loop. Destroying this object ends the loop.
  class ACCELERATE_API Loop {
   public:
    explicit Loop(const std::shared_ptr<Impl>& loader);
    Loop(Loop&&) noexcept;
    Loop& operator=(Loop&&) noexcept;
    ~Loop();
    /// Returns the current batch; null after the last batch.
    void* batch() const;
    void advance();

   private:
    class State;
    std::unique_ptr<State> state_;
  };
  Loop begin_loop();
  /// Starts a read-ahead loop, which reads the batches of the next regular loop
  /// in advance, without changing the loader's position or the state of the
  /// Accelerator. Must be called before the regular loop begins.
  Loop begin_reading_ahead() const;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace accelerate
