// SPDX-License-Identifier: Apache-2.0
// What all data loaders have in common, whatever their dataset and batch.
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

class GradientState;  // Private: the step that an Accelerator is in.

/// This process's place among those that share a loader's data.
struct ShardOptions {
  /// Among the processes that get *different* data; those that get the same
  /// (parts of one model) pass the same numbers.
  std::int64_t process_index = 0;
  std::int64_t num_processes = 1;
  /// These processes, for what they do together.
  Group group = {};
  /// Where batches go; left out: they stay where the dataset made them, as do
  /// those that are no nests of tensors.
  std::optional<c10::Device> device = std::nullopt;
  DataLoaderConfiguration configuration = {};
  /// Generators that get the main process's state when a loop begins.
  std::vector<RngType> rng_types = {};
  std::shared_ptr<GradientState> gradient_state = nullptr;
};

/// A data loader without its types. `DataLoader` derives from it.
///
/// Thread safety: one thread, that of the training loop.
class ACCELERATE_API DataLoaderBase {
 public:
  DataLoaderBase(DataLoaderBase&&) noexcept;
  DataLoaderBase& operator=(DataLoaderBase&&) noexcept;
  virtual ~DataLoaderBase();

  /// Batches of an epoch on this process.
  ///
  /// Throws `StateError` for a stream, whose length nobody knows.
  std::int64_t size() const;
  /// Samples of the dataset, if known.
  std::optional<std::int64_t> dataset_size() const;
  /// Samples that all processes together use in a step; with a batch sampler,
  /// batches.
  std::int64_t total_batch_size() const;

  /// Rows of the batch that the loop is processing; after the loop, of the
  /// last one.
  std::int64_t rows() const;
  /// How many of these rows are real: those after them repeat other samples,
  /// so that every process has a batch of the same size.
  std::int64_t valid_rows() const;
  /// Whether that batch is the last of the epoch on this process.
  bool end_of_dataloader() const;

  /// The epoch of the current or next loop; each complete loop adds one.
  std::int64_t epoch() const;
  /// Chooses the epoch, and with it the order, of the next loop. The place of
  /// a loaded state stays if the epoch is the one it was saved in.
  void set_epoch(std::int64_t epoch);

  /// Seed, epoch, and how many samples all processes have used, the batch that
  /// the loop is processing included. A few numbers, whatever the dataset.
  Json state_dict() const;
  /// Lets the next loop continue behind the last sample of the state, with any
  /// number of processes.
  ///
  /// Throws `FormatError` when it is no such state, `ArgumentError` when it
  /// belongs to another dataset or order, `StateError` inside a loop.
  void load_state_dict(const Json& state);

  /// Gives this process its share of the batches; `Accelerator::prepare` calls
  /// it. Again with the same options is harmless, with others it replaces
  /// them.
  ///
  /// Collective. Throws `ArgumentError` for rules that do not fit the loader,
  /// `MismatchError` with the values when processes have datasets of different
  /// sizes or different seeds, `StateError` inside a loop.
  void shard(const ShardOptions& options);

  /// Expires with the loader.
  std::weak_ptr<const void> lifetime() const { return impl_; }

  /// Whether the last step is completed, for loops that begin from now on.
  bool even_batches() const;
  void set_even_batches(bool even);

 protected:
  DataLoaderBase(
      std::shared_ptr<detail::BatchSource> source,
      detail::LoaderSettings settings);
  class Impl;
  /// A loader of its own over the same dataset, which begins `batches` later.
  std::shared_ptr<Impl> copy_without(std::int64_t batches) const;
  explicit DataLoaderBase(std::shared_ptr<Impl> impl);

  /// A loop under way; ends when it is destroyed.
  class ACCELERATE_API Loop {
   public:
    explicit Loop(const std::shared_ptr<Impl>& loader);
    Loop(Loop&&) noexcept;
    Loop& operator=(Loop&&) noexcept;
    ~Loop();
    /// The current batch; null after the last.
    void* batch() const;
    void advance();

   private:
    class State;
    std::unique_ptr<State> state_;
  };
  Loop begin_loop();
  /// The next loop's batches, read by somebody else ahead of it: the
  /// Accelerator does not see it, and the loader's place does not move. Begin
  /// it before the loop it is for.
  Loop begin_reading_ahead() const;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace accelerate
