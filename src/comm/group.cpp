// SPDX-License-Identifier: Apache-2.0
#include "accelerate/group.h"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/group_backends.h"
#include "comm/group_impl.h"
#include "comm/reporting_store.h"

namespace accelerate {
namespace {

void check_rank_and_size(int rank, int size, const GroupOptions& options) {
  if (size < 1) {
    throw ArgumentError(
        str_cat("size is ", size, ", but a process group has 1 or more ranks"),
        "pass a size of 1 or more");
  }
  if (rank < 0 || rank >= size) {
    throw ArgumentError(
        str_cat(
            "rank is ",
            rank,
            ", but the group size is ",
            size,
            " (ranks 0–",
            size - 1,
            ")"),
        str_cat("pass a rank from 0 to ", size - 1));
  }
  check_group_options(options);
}

c10::intrusive_ptr<c10d::Store> with_own_errors(
    const c10::intrusive_ptr<c10d::Store>& store) {
  return report_errors(
      store,
      {"lost the connection to the store, whose process has probably exited",
       "the root cause is in the log of that process"});
}

}  // namespace

Group::Group() : impl_(std::make_shared<Impl>()) {
}

Group::Group(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    GroupOptions options) {
  check_rank_and_size(rank, size, options);
  // Tests use NCCL with a single GPU.
  const bool alone = size == 1 && options.backend != Backend::nccl;
  impl_ = alone ? std::make_shared<Impl>()
                : std::make_shared<Impl>(
                      RankContext{with_own_errors(store), rank, size},
                      std::move(options));
}

Group::Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {
}
Group::Group(const Group&) = default;
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(const Group&) = default;
Group& Group::operator=(Group&&) noexcept = default;
Group::~Group() = default;

int Group::rank() const {
  return impl_->context.rank;
}
int Group::size() const {
  return impl_->context.size;
}
bool Group::on_one_machine() const {
  return size() == 1 || impl_->memory;
}
const GroupOptions& Group::options() const {
  return impl_->options;
}

std::string Group::backend_name() const {
  const auto& first =
      impl_->device_backend ? impl_->device_backend : impl_->backend;
  return first ? first->getBackendName() : "none";
}

std::optional<Group> Group::subgroup(const std::vector<int>& ranks) const {
  for (const int member : ranks) {
    if (member < 0 || member >= size()) {
      throw ArgumentError(
          str_cat(
              "subgroup: rank ",
              member,
              " is not in this group, which has only ",
              name_all_ranks(size())),
          "pass only ranks in this group");
    }
  }
  if (ranks.empty() ||
      std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size()) {
    throw ArgumentError(
        str_cat(
            "subgroup needs one or more distinct ranks, got ",
            c10::ArrayRef<int>(ranks)),
        "pass one or more ranks, and list each rank only once");
  }
  const auto position = std::find(ranks.begin(), ranks.end(), rank());
  if (size() == 1) {
    return *this;
  }
  return impl_->guarded(
      "subgroup", [&](const Call& call) -> std::optional<Group> {
        impl_->agree(call, {}, str_cat(c10::ArrayRef<int>(ranks)));
        const int number = impl_->subgroups++;
        if (position == ranks.end()) {
          return std::nullopt;
        }
        auto store = c10::make_intrusive<c10d::PrefixStore>(
            str_cat("subgroup", number), impl_->context.store);
        if (ranks.size() == 1) {
          return Group();
        }
        RankContext context{
            store,
            static_cast<int>(position - ranks.begin()),
            static_cast<int>(ranks.size()),
            impl_->process_indices(ranks),
            impl_->num_processes()};
        return Group(
            std::make_shared<Impl>(std::move(context), impl_->options));
      });
}

void Group::barrier() const {
  if (size() > 1) {
    impl_->guarded(
        "wait_for_everyone", [&](const Call& call) { impl_->agree(call, {}); });
  }
}

std::vector<int> Group::Impl::process_indices(
    const std::vector<int>& ranks) const {
  std::vector<int> indices;
  for (const int member : ranks) {
    indices.push_back(
        context.members.empty() ? member : context.members[member]);
  }
  return indices;
}

int Group::Impl::num_processes() const {
  return context.members.empty() ? context.size : context.num_processes;
}

Tensor Group::allocate(std::int64_t count, const Tensor& like) const {
  if (count < 0) {
    throw ArgumentError(
        str_cat("allocate: count is ", count), "pass 0 or more");
  }
  if (size() == 1 || !like.is_cpu() ||
      !impl_->backend->supportsTensorAlloc(0)) {
    return at::zeros({count}, like.options().requires_grad(false));
  }
  return impl_->guarded("allocate", [&](const Call& call) {
    impl_->agree(call, {}, str_cat(count, " × ", like.scalar_type()));
    return impl_->backend->allocateTensor(
        count, at::TensorOptions(like.scalar_type()));
  });
}

void Group::abort() const {
  impl_->aborted->store(true);
  if (impl_->backend) {
    impl_->backend->abort();
  }
  if (impl_->device_backend) {
    impl_->device_backend->abort();
  }
}

}  // namespace accelerate
