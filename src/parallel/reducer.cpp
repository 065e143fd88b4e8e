// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/device_work.h"
#include "comm/patience.h"

namespace accelerate {
namespace {

namespace impl = torch::autograd::impl;

// The tail of the last bucket: a flag per parameter, then these two.
constexpr std::int64_t kLate = 0;
constexpr std::int64_t kFailed = 1;
constexpr std::int64_t kFlags = 2;

bool plain_copy_works(const at::Tensor& to, const at::Tensor& from) {
  return to.is_cpu() && from.is_cpu() && from.layout() == at::kStrided &&
         to.scalar_type() == from.scalar_type() &&
         to.strides() == from.strides() && to.sizes() == from.sizes() &&
         from.is_non_overlapping_and_dense();
}

// `copy_` costs 2.4 µs however small the tensor, memcpy 0.7 µs.
void copy_into(const at::Tensor& to, const at::Tensor& from) {
  if (plain_copy_works(to, from)) {
    std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
  } else if (from.layout() != at::kStrided) {
    to.copy_(from.to_dense());
  } else {
    to.copy_(from);
  }
}

void add_into(const at::Tensor& to, const at::Tensor& from) {
  to.add_(from.layout() == at::kStrided ? from : from.to_dense());
}

}  // namespace

// One parameter's gradient between hooks and `.grad`.
struct Reducer::Place {
  std::size_t bucket = 0;
  at::Tensor view;  // Also what `.grad` becomes.
  at::Tensor late;  // What came after the bucket had started.
  bool has_sum = false;
  bool handed_over = false;  // `.grad` was made an alias of the view.
  int fires = 0;             // in this backward
  int expected = 1;          // in each backward
};

struct Reducer::Shared {
  Reducer* reducer;  // Null once it is gone.
};

// Chains a hook that was there before: a tensor has one slot only.
class Reducer::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(
      std::shared_ptr<Shared> shared,
      std::size_t index,
      std::unique_ptr<PostAccumulateGradHook> before)
      : shared_(std::move(shared)), index_(index), before_(std::move(before)) {}

  void operator()(const at::Tensor& parameter) override {
    if (before_) {
      (*before_)(parameter);
    }
    if (shared_->reducer != nullptr) {
      shared_->reducer->accept(index_, parameter);
    }
  }

  bool belongs_to(const Shared* shared) const {
    return shared_.get() == shared;
  }
  std::unique_ptr<PostAccumulateGradHook> take_before() {
    return std::move(before_);
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::size_t index_;
  std::unique_ptr<PostAccumulateGradHook> before_;
};

Reducer::Reducer(Group group, NamedTensors parameters, Options options)
    : group_(std::move(group)),
      parameters_(std::move(parameters)),
      options_(std::move(options)),
      agreement_(
          options_.agreement ? options_.agreement
                             : std::make_shared<Agreement>(group_)),
      places_(parameters_.size()),
      shared_(std::make_shared<Shared>(this)) {
  // Gradients come in about the reverse order of the parameters.
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  lay_out(order);
  install_hooks();
}

Reducer::~Reducer() {
  shared_->reducer = nullptr;
  for (const at::Tensor& parameter : parameters_.tensors) {
    auto& slot = impl::post_acc_grad_hooks(parameter);
    auto* ours = dynamic_cast<Hook*>(slot.get());
    if (ours != nullptr && ours->belongs_to(shared_.get())) {
      slot = ours->take_before();
    }
  }
}

// Also puts back a hook that somebody replaced since.
void Reducer::install_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& slot = impl::post_acc_grad_hooks(parameters_.tensors[i]);
    const auto* ours = dynamic_cast<const Hook*>(slot.get());
    if (ours == nullptr || !ours->belongs_to(shared_.get())) {
      impl::set_post_acc_grad_hooks(
          parameters_.tensors[i],
          std::make_unique<Hook>(shared_, i, std::move(slot)));
    }
  }
}

void Reducer::lay_out(const std::vector<std::size_t>& order) {
  std::vector<Bucket> buckets =
      plan_buckets(parameters_.tensors, order, options_.buckets);
  const auto flags = static_cast<std::int64_t>(parameters_.size()) + kFlags;
  allocate_buckets(buckets, flags, group_, options_.buckets);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    for (std::size_t m = 0; m < bucket.members.size(); ++m) {
      const std::size_t index = bucket.members[m];
      const at::Tensor& parameter = parameters_.tensors[index];
      Place& place = places_[index];
      const at::Tensor old = std::exchange(
          place.view, view_of(bucket, bucket.offsets[m], parameter));
      place.bucket = b;
      if (old.defined() && place.has_sum) {
        copy_into(place.view, old);
      }
      if (place.handed_over && parameter.grad().defined()) {
        parameter.mutable_grad() = place.view;
      }
    }
  }
  buckets_ = std::move(buckets);
}

// Rank 0's order; what it never saw comes last, so that it holds nothing up.
void Reducer::lay_out_anew() {
  laid_out_anew_ = true;
  std::vector<std::int64_t> order(fired_.begin(), fired_.end());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (std::find(fired_.begin(), fired_.end(), i) == fired_.end()) {
      order.push_back(static_cast<std::int64_t>(i));
    }
  }
  at::Tensor agreed = at::tensor(order, at::kLong);
  group_.broadcast({agreed});
  const auto* begin = agreed.data_ptr<std::int64_t>();
  lay_out({begin, begin + agreed.numel()});
}

at::Tensor Reducer::tail() const {
  const Bucket& last = buckets_.back();
  return last.flat.narrow(
      0, last.length, static_cast<std::int64_t>(parameters_.size()) + kFlags);
}

void Reducer::begin(Sync sync, bool ahead) {
  const at::NoGradGuard guard;
  sync_ = sync;
  ahead_ = ahead;
  if (learnt_ && !laid_out_anew_) {
    lay_out_anew();
  }
  install_hooks();
  waiting_.assign(buckets_.size(), 0);
  works_.clear();
  next_ = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    adopt(i);
    places_[i].fires = 0;
    ++waiting_[places_[i].bucket];
  }
  if (reduces() && !options_.agreement) {
    agreement_->propose();
  }
}

void Reducer::adopt(std::size_t index) {
  Place& place = places_[index];
  at::Tensor& grad = parameters_.tensors[index].mutable_grad();
  if (!grad.defined()) {
    // Handed over and gone: somebody called `zero_grad`.
    place.has_sum = place.has_sum && !place.handed_over;
  } else if (!grad.is_alias_of(place.view)) {
    copy_into(place.view, grad);
    place.has_sum = true;
  }
  place.handed_over = false;
  grad.reset();
}

void Reducer::accept(std::size_t index, const at::Tensor& parameter) {
  const at::NoGradGuard guard;
  at::Tensor& grad = parameter.mutable_grad();
  Place& place = places_[index];
  if (!grad.defined()) {
    return;  // Frozen after the forward, or a function that gave nothing.
  }
  const bool started = reduces() && place.bucket < next_;
  if (started) {
    if (place.late.defined()) {
      add_into(place.late, grad);
    } else {
      place.late = at::empty_like(place.view);
      copy_into(place.late, grad);
    }
  } else if (place.has_sum) {
    add_into(place.view, grad);
  } else {
    copy_into(place.view, grad);
    place.has_sum = true;
  }
  grad.reset();
  if (place.fires++ == 0 && !learnt_) {
    fired_.push_back(index);
  }
  if (reduces() && learnt_ && place.fires == place.expected) {
    --waiting_[place.bucket];
    start_ready();
  }
}

void Reducer::start_ready() {
  while (ahead_ && next_ + 1 < buckets_.size() && waiting_[next_] == 0 &&
         agreement_->reached()) {
    start(next_, /*async=*/true);
  }
}

void Reducer::start(std::size_t index, bool async) {
  const Bucket& bucket = buckets_[index];
  fill_unused(bucket);
  if (!bucket.wire.is_alias_of(bucket.flat)) {
    bucket.wire.copy_(bucket.flat);
  }
  std::vector<at::Tensor> one = {bucket.wire};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  options.asyncOp = async;
  const Call call{"backward", group_.last_call()};
  const CallScope scope(call);
  if (group_.size() == 1 && bucket.wire.is_cpu()) {
    works_.emplace_back();  // Nobody to tell; only the device goes its way.
  } else {
    works_.push_back(
        bucket.wire.is_cpu()
            ? group_.backend().allreduce(one, options)
            : started_on_device([&] {
                return group_.device_backend()->allreduce(one, options);
              }));
  }
  next_ = index + 1;
}

void Reducer::wait_for(std::size_t index) {
  const Bucket& bucket = buckets_[index];
  if (!bucket.wire.is_cpu()) {
    group_.wait_on_device(works_[index], "backward");
  } else if (works_[index]) {
    group_.wait(works_[index], "backward");
  }
  if (!bucket.wire.is_alias_of(bucket.flat)) {
    bucket.flat.copy_(bucket.wire);
  }
}

void Reducer::fill_unused(const Bucket& bucket) {
  for (const std::size_t index : bucket.members) {
    if (!places_[index].has_sum) {
      places_[index].view.zero_();
    }
  }
}

void Reducer::write_tail(bool failed) {
  const at::Tensor flags = tail();
  auto* data = flags.data_ptr<float>();
  bool late = false;
  for (const Place& place : places_) {
    *data++ = place.has_sum ? 1.0F : 0.0F;
    late = late || place.late.defined();
  }
  data[kLate] = late ? 1.0F : 0.0F;
  data[kFailed] = failed ? 1.0F : 0.0F;
}

void Reducer::agree() {
  try {
    agreement_->settle();
  } catch (...) {
    forget_sums();
    throw;
  }
}

void Reducer::finish_all() {
  std::exception_ptr refused;
  try {
    while (next_ < buckets_.size()) {
      // Nothing is left to do meanwhile: no need to wake another thread.
      start(next_, /*async=*/false);
    }
  } catch (...) {
    // An earlier work knows why.
    refused = std::current_exception();
  }
  for (std::size_t b = 0; b < works_.size(); ++b) {
    wait_for(b);
  }
  works_.clear();
  if (refused) {
    std::rethrow_exception(refused);
  }
}

void Reducer::end() {
  const at::NoGradGuard guard;
  if (sync_ == Sync::later) {
    return;
  }
  if (reduces()) {
    agree();
    write_tail(/*failed=*/false);
    finish_all();
    const at::Tensor flags = tail();
    const auto* end = flags.data_ptr<float>() + parameters_.size();
    if (end[kFailed] > 0) {
      forget_sums();
      throw PeerError(
          str_cat(
              "backward failed on another rank; rank ",
              group_.rank(),
              " dropped the gradients of this step"),
          "look for the own error of the other ranks; the group can be used "
          "again");
    }
    if (end[kLate] > 0) {
      reduce_late();
    }
    learnt_ = true;
  }
  hand_over();
}

// Gradients that came after their bucket had started, on any rank.
void Reducer::reduce_late() {
  for (const Bucket& bucket : buckets_) {
    if (bucket.members.empty()) {
      continue;
    }
    at::Tensor extra = at::zeros_like(bucket.flat);
    for (std::size_t m = 0; m < bucket.members.size(); ++m) {
      const std::size_t index = bucket.members[m];
      Place& place = places_[index];
      if (place.late.defined()) {
        Bucket mirror = bucket;
        mirror.flat = extra;
        copy_into(
            view_of(mirror, bucket.offsets[m], parameters_.tensors[index]),
            place.late);
        place.late.reset();
      }
      place.expected = std::max(place.expected, place.fires);
    }
    reduce_now(extra);
    bucket.flat.narrow(0, 0, bucket.length)
        .add_(extra.narrow(0, 0, bucket.length));
  }
}

void Reducer::reduce_now(const at::Tensor& tensor) {
  c10d::Backend* device = tensor.is_cpu() ? nullptr : group_.device_backend();
  const at::Tensor carried = device != nullptr ? tensor : tensor.cpu();
  std::vector<at::Tensor> one = {carried};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  const Call call{"backward", group_.last_call()};
  const CallScope scope(call);
  if (device != nullptr) {
    group_.wait_on_device(
        started_on_device([&] { return device->allreduce(one, options); }),
        "backward");
  } else {
    group_.wait(group_.backend().allreduce(one, options), "backward");
  }
  if (!carried.is_same(tensor)) {
    tensor.copy_(carried);
  }
}

std::vector<at::Tensor> Reducer::sums() const {
  std::vector<at::Tensor> sums;
  for (const Place& place : places_) {
    sums.push_back(
        place.has_sum && !place.handed_over ? place.view : at::Tensor());
  }
  return sums;
}

void Reducer::set_sums(const std::vector<at::Tensor>& sums) {
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    place.has_sum = sums[i].defined();
    place.handed_over = false;
    if (place.has_sum) {
      copy_into(place.view, sums[i]);
    }
  }
}

void Reducer::hand_over() {
  const at::Tensor flags = tail();
  const auto* used = flags.data_ptr<float>();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    place.has_sum = place.has_sum || (reduces() && used[i] > 0);
    place.handed_over = place.has_sum && sync_ != Sync::hidden;
    if (place.handed_over) {
      parameters_.tensors[i].mutable_grad() = place.view;
    }
    if (reduces() && place.fires > 0) {
      place.expected = std::max(place.expected, place.fires);
    }
  }
}

void Reducer::forget_sums() noexcept {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i].has_sum = false;
    places_[i].handed_over = false;
    places_[i].late.reset();
    parameters_.tensors[i].mutable_grad().reset();
  }
}

void Reducer::fail() noexcept {
  const at::NoGradGuard guard;
  try {
    if (reduces()) {
      agreement_->settle();
      write_tail(/*failed=*/true);
      finish_all();
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // The caller's own exception is the one that counts.
  }
  forget_sums();
}

void Reducer::begin_shadow() {
  forget_sums();
  begin(Sync::now);
}

void Reducer::end_shadow() {
  const at::NoGradGuard guard;
  agree();
  write_tail(/*failed=*/false);
  finish_all();
  if (tail()[static_cast<std::int64_t>(parameters_.size()) + kLate]
          .item<float>() > 0) {
    reduce_late();
  }
  learnt_ = true;
  forget_sums();
}

}  // namespace accelerate
