// SPDX-License-Identifier: Apache-2.0
// Averages gradients across processes during the backward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accelerate/group.h"
#include "comm/group_call.h"
#include "parallel/bucket.h"
#include "parallel/gradient_path.h"

namespace accelerate {

/// The gradient path for several processes.
///
/// NOTE [Gradients in buckets]
/// 1. `begin` moves the gradient of each parameter from `.grad` into the
///    parameter's slot in its bucket, unless the gradient is already in the
///    slot. `.grad` is then undefined.
/// 2. A hook on each parameter copies (first call) or adds (later calls) the
///    new gradient into the slot and undefines `.grad` again. The hook must not
///    make `.grad` an alias of the slot: with gradient checkpointing the hook
///    may run again while its bucket is being reduced.
/// 3. The all-reduce of a bucket starts when all its gradients are ready, all
///    earlier buckets have started, and all ranks are known to be in this
///    backward pass (`GroupCall`). Buckets therefore start in the same order on
///    every rank. With several models in one backward pass, only the largest
///    model starts buckets before `end`. The last bucket always starts in
///    `end`, because it also holds flags: whether this rank used each
///    parameter, whether a gradient was late, and whether the rank failed.
/// 4. `end` starts the remaining buckets, waits for all buckets, and makes
///    `.grad` an alias of the slot for each parameter that any rank used. Other
///    parameters keep an undefined `.grad`.
///
/// The first synchronizing backward pass starts all buckets in `end`, and
/// records in which order and how often the hooks run. The buckets are then
/// rebuilt in rank 0's order, with unused parameters last.
///
/// A hook that runs after its bucket has started is late. The late gradient is
/// kept separately and reduced in a second round, which all ranks join because
/// the late flag is set.
///
/// Buckets are on the device of their parameters. In `end`, the device's stream
/// waits for these buckets; the program does not. The flags are in host memory.
/// If the group has no backend for the device, buckets are copied to
/// host memory and back.
///
/// Thread safety: call the members only from the thread that runs the training
/// loop. During the backward pass, autograd calls the hooks on its own threads.
class Reducer : public GradientPath {
 public:
  struct Options {
    BucketOptions buckets = {};
    /// The `GroupCall` that all gradient paths of a backward pass share. Its
    /// owner must invoke `call->begin()` once per backward pass, after every
    /// path's `begin()`. Default: the reducer creates its own `GroupCall`.
    std::shared_ptr<GroupCall> call = nullptr;
  };

  /// Collective. All `parameters` must require gradients, and the list must be
  /// the same on every rank.
  Reducer(Group group, NamedTensors parameters, Options options);
  ~Reducer() override;

  void begin(Sync sync, bool overlap = true) override;
  void end() override;
  void fail() noexcept override;
  std::vector<at::Tensor> sums() const override;
  void set_sums(const std::vector<at::Tensor>& sums) override;
  const NamedTensors& parameters() const override { return parameters_; }

  void begin_zero_contribution() override;
  void end_zero_contribution() override;

  /// Returns the number of buckets.
  std::size_t num_buckets() const { return buckets_.size(); }

 private:
  class Hook;
  struct GradientSlot;
  struct HookState;

  void install_hooks();
  void build_buckets(const std::vector<std::size_t>& order);
  void rebuild_buckets();
  void load_gradient(std::size_t index);
  void add_gradient(std::size_t index, const at::Tensor& parameter);
  void start_ready_buckets();
  void start(std::size_t bucket, bool overlap);
  void wait_for(std::size_t bucket);
  void zero_unused(const Bucket& bucket);
  void write_flags(bool failed);
  void reduce_remaining();
  void agree();
  void reduce_late();
  void publish_gradients();
  void drop_sums() noexcept;
  at::Tensor flag_tensor() const;
  bool reduces() const { return sync_ == Sync::now || sync_ == Sync::hidden; }

  Group group_;
  NamedTensors parameters_;
  Options options_;
  std::shared_ptr<GroupCall> call_;
  std::vector<Bucket> buckets_;
  std::vector<GradientSlot> slots_;
  std::vector<int> unready_;      // Gradients that are not ready, per bucket.
  std::vector<Pending> started_;  // The all-reduces, in bucket order.
  std::size_t next_ = 0;          // The bucket that starts next.
  // The order in which gradients became ready in the first backward pass.
  std::vector<std::size_t> ready_order_;
  bool order_known_ = false;
  bool buckets_rebuilt_ = false;
  bool overlap_ = true;  // Whether buckets may start before `end`.
  Sync sync_ = Sync::now;
  std::shared_ptr<HookState> hook_state_;  // Hooks may outlive the reducer.
};

}  // namespace accelerate
