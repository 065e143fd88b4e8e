// SPDX-License-Identifier: Apache-2.0
#include "parallel/strategy.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/str_cat.h"
#include "comm/group_call.h"
#include "device/lazy_device.h"
#include "parallel/local_gradients.h"
#include "parallel/model_sync.h"
#include "parallel/reducer.h"

namespace accelerate {
namespace {

/// The code that all strategies share: keeps track of the participants of a
/// backward pass.
class ReplicatedStrategy : public Strategy {
 public:
  void end_backward() override {
    std::exception_ptr first;
    for (const Participant& participant : std::exchange(participants_, {})) {
      try {
        participant.path->end();
      } catch (...) {
        first = first ? first : std::current_exception();
      }
    }
    if (first) {
      std::rethrow_exception(first);
    }
  }

  void fail_backward() noexcept override {
    for (const Participant& participant : std::exchange(participants_, {})) {
      participant.path->fail();
    }
  }

  // Every rank holds every parameter and its optimizer state.
  FlatRange owned_range(const at::Tensor& parameter) const override {
    return {0, parameter.numel()};
  }

 protected:
  std::vector<Participant> participants_;
};

class OneProcess : public ReplicatedStrategy {
 public:
  void replicate(
      const NamedTensors& /*parameters*/,
      const NamedTensors& /*buffers*/) override {}
  void broadcast(
      const std::vector<at::Tensor>& /*tensors*/, int /*from*/) override {}

  std::unique_ptr<GradientPath> make_path(NamedTensors trainable) override {
    return std::make_unique<LocalGradients>(std::move(trainable));
  }

  void begin_backward(std::vector<Participant> participants) override {
    participants_ = std::move(participants);
    for (const Participant& participant : participants_) {
      participant.path->begin(participant.sync);
    }
  }

  void join_backward(const std::vector<GradientPath*>& /*paths*/) override {}

  std::shared_ptr<OperatorCollectives> operator_collectives() override {
    return nullptr;
  }

  std::string capture_obstacle() const override { return ""; }
};

/// One process that drives a mesh of XLA devices. XLA compiles the whole step
/// for all devices, so gradients already cover the whole batch, and nothing is
/// averaged.
class OneMesh : public OneProcess {
 public:
  explicit OneMesh(LazyDevice& device) : device_(device) {}

  // In a loop over a prepared loader, the loader has already run the previous
  // step. In any other loop, this function runs the previous step.
  void begin_backward(std::vector<Participant> participants) override {
    std::vector<at::Tensor> parameters;
    for (const Participant& participant : participants) {
      const auto& tensors = participant.path->parameters().tensors;
      parameters.insert(parameters.end(), tensors.begin(), tensors.end());
    }
    device_.run_until_written(parameters);
    OneProcess::begin_backward(std::move(participants));
  }

  std::string capture_obstacle() const override {
    return "XLA compiles each step as a whole";
  }

 private:
  LazyDevice& device_;
};

class DataParallel : public ReplicatedStrategy {
 public:
  DataParallel(Group group, BucketOptions buckets)
      : group_(std::move(group)),
        buckets_(buckets),
        call_(std::make_shared<GroupCall>(group_, "backward")) {}

  void replicate(
      const NamedTensors& parameters, const NamedTensors& buffers) override {
    check_same_model(group_, parameters, buffers);
    broadcast(parameters.tensors, 0);
    broadcast(buffers.tensors, 0);
  }

  void broadcast(const std::vector<at::Tensor>& tensors, int from) override {
    group_.broadcast(tensors, from);
  }

  std::unique_ptr<GradientPath> make_path(NamedTensors trainable) override {
    return std::make_unique<Reducer>(
        group_, std::move(trainable), Reducer::Options{buckets_, call_});
  }

  // The largest model comes first, because it reduces its gradients early. The
  // order is the same on every rank.
  void begin_backward(std::vector<Participant> participants) override {
    participants_ = std::move(participants);
    std::ranges::stable_sort(participants_, [](const auto& a, const auto& b) {
      return a.path->num_elements() > b.path->num_elements();
    });
    bool reduces = false;
    for (const Participant& participant : participants_) {
      participant.path->begin(
          participant.sync, /*overlap=*/!reduces && !collectives_);
      reduces = reduces || participant.sync == Sync::now ||
                participant.sync == Sync::hidden;
    }
    if (reduces) {
      call_->begin();
    }
    if (collectives_) {
      collectives_->begin_backward(reduces ? call_ : nullptr);
    }
  }

  void end_backward() override {
    if (collectives_) {
      try {
        collectives_->end_backward();
      } catch (...) {
        ReplicatedStrategy::fail_backward();
        throw;
      }
    }
    ReplicatedStrategy::end_backward();
  }

  void fail_backward() noexcept override {
    if (collectives_) {
      collectives_->fail_backward();
    }
    ReplicatedStrategy::fail_backward();
  }

  void join_backward(const std::vector<GradientPath*>& paths) override {
    std::vector<GradientPath*> sorted = paths;
    std::ranges::stable_sort(sorted, [](const auto* a, const auto* b) {
      return a->num_elements() > b->num_elements();
    });
    for (GradientPath* path : sorted) {
      path->begin_zero_contribution();
    }
    call_->begin();
    for (GradientPath* path : sorted) {
      path->end_zero_contribution();
    }
  }

  std::shared_ptr<OperatorCollectives> operator_collectives() override {
    if (!collectives_ && group_.size() > 1) {
      collectives_ = std::make_shared<OperatorCollectives>(group_);
    }
    return collectives_;
  }

  std::string capture_obstacle() const override {
    return str_cat(
        "gradients from ",
        group_.size(),
        " processes are averaged while backward runs");
  }

 private:
  Group group_;
  BucketOptions buckets_;
  std::shared_ptr<GroupCall> call_;
  std::shared_ptr<OperatorCollectives> collectives_;
};

// A group of one rank is not treated as a single process if it has a backend
// for the device, so that tests can use this backend.
bool is_alone(const Group& group) {
  return group.size() == 1 && group.backend_name() == "none";
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(
    const Group& group, const BucketOptions& buckets, LazyDevice* lazy) {
  if (lazy != nullptr) {
    return std::make_unique<OneMesh>(*lazy);
  }
  if (is_alone(group)) {
    return std::make_unique<OneProcess>();
  }
  return std::make_unique<DataParallel>(group, buckets);
}

}  // namespace accelerate
