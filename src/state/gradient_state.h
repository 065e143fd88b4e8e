// SPDX-License-Identifier: Apache-2.0
// What the parts of one Accelerator know of the step they are in.
#pragma once

#include <cstdint>
#include <vector>

namespace accelerate {

/// What a data loader says about the batch that its loop is processing.
class LoaderPosition {
 public:
  virtual ~LoaderPosition() = default;
  /// True while the last batch of the epoch is processed.
  virtual bool end_of_dataloader() const = 0;
  /// Rows of this process's batch, padding included.
  virtual std::int64_t rows() const = 0;
  /// Rows of it that are real: those after them repeat other samples.
  virtual std::int64_t valid_rows() const = 0;
};

/// Shared by an Accelerator and the loaders, optimizers and schedulers that it
/// prepared.
///
/// Loops may be nested (an evaluation inside a training loop), so the active
/// loaders form a stack. After a loop the last batch stays visible until
/// another loop begins.
///
/// Thread safety: the thread of the training loop only.
class GradientState {
 public:
  /// Whether the next backward synchronises and the optimizer steps.
  bool sync_gradients = true;

  /// A loop over `loader` begins or ends. The loader must outlive the state or
  /// call `forget`.
  void enter(const LoaderPosition* loader);
  void leave(const LoaderPosition* loader);
  void forget(const LoaderPosition* loader);

  /// The innermost loop's loader; after all loops, the last one; null before
  /// the first.
  const LoaderPosition* active() const;
  bool in_dataloader() const { return !loops_.empty(); }
  /// Whether the innermost loop processes its last batch.
  bool end_of_dataloader() const;

 private:
  std::vector<const LoaderPosition*> loops_;
  const LoaderPosition* last_ = nullptr;
};

}  // namespace accelerate
