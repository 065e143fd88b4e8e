// SPDX-License-Identifier: Apache-2.0
// Averages gradients over processes while the backward still runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "accelerate/group.h"
#include "parallel/agreement.h"
#include "parallel/bucket.h"
#include "parallel/gradient_path.h"

namespace accelerate {

/// The gradient path of several processes.
///
/// NOTE [Gradients in buckets]
/// 1. `begin` moves what is in `.grad` into the parameter's place in its
///    bucket, unless it is there already, and leaves `.grad` undefined.
/// 2. A hook behind each parameter's gradient copies (first time) or adds
///    (later) the fresh gradient into that place and undefines `.grad` again.
///    It must not make `.grad` an alias: a checkpointed block fires the hook
///    once more while its bucket is under way.
/// 3. When all members of a bucket are there, all buckets before it have
///    started, and all ranks are known to be in this backward (`Agreement`),
///    its all-reduce starts: the same order on every rank. Of several
///    models in one backward only the largest starts any ahead of `end`. The
///    last bucket waits for `end`; behind it travel, for each parameter,
///    whether this rank used it, and whether a gradient came late or the rank
///    failed.
/// 4. `end` starts the rest, waits, and makes `.grad` an alias of the place
///    for each parameter that any rank used; the others stay undefined.
///
/// The first synchronising backward starts nothing early: it learns in which
/// order and how often the hooks fire. Then the buckets are laid out anew in
/// rank 0's order, never used parameters last.
///
/// A hook that fires after its bucket has started is late: its gradient is
/// kept aside and reduced in a second round, which all ranks join because the
/// late flag is set.
///
/// On a device the buckets lie there, and `end` lets its stream wait for them,
/// not the program; the flags travel through the host's memory. Without a
/// backend for the device, buckets are copied to the host and back.
///
/// Thread safety: the thread of the training loop, and autograd's threads in
/// between.
class Reducer : public GradientPath {
 public:
  struct Options {
    BucketOptions buckets = {};
    /// Shared by paths of one backward, whose owner then proposes it between
    /// `begin` and the engine; left out: this one's own.
    std::shared_ptr<Agreement> agreement = nullptr;
  };

  /// Collective. `parameters` are those that need gradients, the same list on
  /// every rank.
  Reducer(Group group, NamedTensors parameters, Options options);
  ~Reducer() override;

  void begin(Sync sync, bool ahead = true) override;
  void end() override;
  void fail() noexcept override;
  std::vector<at::Tensor> sums() const override;
  void set_sums(const std::vector<at::Tensor>& sums) override;
  const NamedTensors& parameters() const override { return parameters_; }

  /// Take part in one synchronising backward of the others with gradients of
  /// zero, for a rank that has run out of batches. Collective.
  void begin_shadow();
  void end_shadow();

  /// Buckets, in the order in which they are reduced.
  std::size_t num_buckets() const { return buckets_.size(); }

 private:
  class Hook;
  struct Place;
  struct Shared;

  void install_hooks();
  void lay_out(const std::vector<std::size_t>& order);
  void lay_out_anew();
  void adopt(std::size_t index);
  void accept(std::size_t index, const at::Tensor& parameter);
  void start_ready();
  void start(std::size_t bucket, bool async);
  void wait_for(std::size_t bucket);
  void reduce_now(const at::Tensor& tensor);
  void fill_unused(const Bucket& bucket);
  void write_tail(bool failed);
  void finish_all();
  void agree();
  void reduce_late();
  void hand_over();
  void forget_sums() noexcept;
  at::Tensor tail() const;
  bool reduces() const { return sync_ == Sync::now || sync_ == Sync::hidden; }

  Group group_;
  NamedTensors parameters_;
  Options options_;
  std::shared_ptr<Agreement> agreement_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
  std::vector<int> waiting_;  // Members that have not come, per bucket.
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  std::size_t next_ = 0;            // The bucket that starts next.
  std::vector<std::size_t> fired_;  // Order of first hooks, while learning.
  bool learnt_ = false;
  bool laid_out_anew_ = false;
  bool ahead_ = true;  // Buckets may start before `end`.
  Sync sync_ = Sync::now;
  std::shared_ptr<Shared> shared_;  // What hooks that outlive us look at.
};

}  // namespace accelerate
