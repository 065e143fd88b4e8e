// SPDX-License-Identifier: Apache-2.0
// The state of the current step, shared by the parts of one Accelerator.
#pragma once

#include <cstdint>
#include <vector>

namespace accelerate {

/// The position of a loop over a data loader.
class LoaderPosition {
 public:
  virtual ~LoaderPosition() = default;
  /// Returns whether the current batch is the last one in the epoch.
  virtual bool end_of_dataloader() const = 0;
  /// Returns the number of rows in this process's current batch, including
  /// padding.
  virtual std::int64_t rows() const = 0;
  /// Returns the number of real rows in this process's current batch. The other
  /// rows are padding, which repeats samples.
  virtual std::int64_t valid_rows() const = 0;
};

/// Shared by an Accelerator and its prepared loaders, optimizers and
/// schedulers.
///
/// Loops may be nested (an evaluation inside a training loop), so the active
/// loaders form a stack. Even outside of loops, `active` returns the loader of
/// the loop that began last.
///
/// Thread safety: use this object only on the thread that runs the training
/// loop.
class GradientState {
 public:
  /// Whether the next backward pass synchronizes gradients. If false, optimizer
  /// steps do nothing.
  bool sync_gradients = true;

  /// Record that a loop over `loader` begins (`enter`) or ends (`leave`), or
  /// that `loader` no longer exists (`forget`). A loader that does not outlive
  /// this object must call `forget` in its destructor.
  void enter(const LoaderPosition* loader);
  void leave(const LoaderPosition* loader);
  void forget(const LoaderPosition* loader);

  /// Returns the loader of the innermost loop. Outside of loops, returns the
  /// loader of the loop that began last, or null if no loop has begun or that
  /// loader was forgotten.
  const LoaderPosition* active() const;
  bool in_dataloader() const { return !loops_.empty(); }
  /// Returns whether the innermost loop is processing its last batch.
  bool end_of_dataloader() const;

 private:
  std::vector<const LoaderPosition*> loops_;
  const LoaderPosition* last_ = nullptr;
};

}  // namespace accelerate
