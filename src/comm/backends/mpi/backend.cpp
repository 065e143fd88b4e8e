// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/backend.h"

#include <exception>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {

MpiBackend::MpiBackend(const std::shared_ptr<Group>& group)
    : Backend(group->rank, group->size),
      group_(group),
      engine_(Engine::start(group)),
      timeout_(group->timeout) {
}

MpiBackend::~MpiBackend() {
  if (std::uncaught_exceptions() > 0) {
    engine_->abandon();
  } else {
    engine_->close();
  }
}

c10::intrusive_ptr<c10d::Backend::Options> MpiBackend::getBackendOptions() {
  auto options = c10::make_intrusive<Options>("mpi", timeout_.load());
  options->group_name = group_->name;
  options->global_ranks_in_group.assign(
      group_->members.begin(), group_->members.end());
  return options;
}

void MpiBackend::abort() {
  group_->health.fail("it was aborted");
  group_->runtime.skip_finalize();
}

void MpiBackend::setTimeout(std::chrono::milliseconds timeout) {
  if (timeout <= std::chrono::milliseconds(0)) {
    throw ArgumentError(
        str_cat("the timeout is ", timeout.count(), " ms"),
        "pass a timeout greater than 0");
  }
  timeout_ = timeout;
}

std::uint64_t MpiBackend::getSequenceNumberForGroup() {
  return engine_->sequence();
}

c10d::ErrorType MpiBackend::getError() {
  return group_->health.broken() ? c10d::ErrorType::COMM_ERROR
                                 : c10d::ErrorType::SUCCESS;
}

std::chrono::milliseconds MpiBackend::timeout_or(
    std::chrono::milliseconds requested) const {
  return requested > std::chrono::milliseconds(0) ? requested : timeout_.load();
}

c10::intrusive_ptr<c10d::Work> MpiBackend::submit(Call call, Body body) {
  group_->health.require_usable();
  auto tensors = std::make_shared<Tensors>();
  const auto make = [&](std::uint64_t sequence) {
    Operation operation{
        call.name, sequence, timeout_or(call.timeout), Clock::time_point()};
    auto work = c10::make_intrusive<MpiWork>(
        group_, call.type, std::move(operation), std::move(call.results));
    auto run = [tensors, body = std::move(body)](Collectives& collectives) {
      body(collectives, *tensors);
      tensors->store();
    };
    return Job{std::move(work), std::move(run), tensors};
  };
  return engine_->submit(make, !call.async);
}

}  // namespace accelerate::mpi
