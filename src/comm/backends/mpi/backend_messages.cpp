// SPDX-License-Identifier: Apache-2.0
// `send` and `recv` of `MpiBackend`.
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/mpi/backend.h"

namespace accelerate::mpi {

void MpiBackend::check_tag(const char* name, int tag) const {
  if (tag < 0 || tag > group_->runtime.largest_tag()) {
    throw ArgumentError(
        str_cat(name, ": tag ", tag, " is out of range"),
        str_cat("pass a tag from 0 to ", group_->runtime.largest_tag()));
  }
}

Message MpiBackend::new_message(
    c10d::OpType type, const char* name, const at::Tensor& tensor) {
  group_->health.require_usable();
  const auto timeout = timeout_.load();
  Operation operation{name, ++messages_, timeout, Clock::now() + timeout};
  const auto deadline = operation.deadline;
  auto work = c10::make_intrusive<MpiWork>(
      group_, type, std::move(operation), Tensors1{tensor});
  work->set_progress([engine = engine_] { engine->poll_messages(); });
  return Message{
      std::move(work), Requests(group_->runtime), {}, deadline, [] {}};
}

c10::intrusive_ptr<c10d::Work> MpiBackend::send(
    Tensors1& tensors, int to, int tag) {
  const at::Tensor& tensor = only_tensor("send", tensors);
  check_rank("send", to, getSize());
  check_tag("send", tag);
  Message message = new_message(c10d::OpType::SEND, "send", tensor);
  const at::Tensor flat = tensor.contiguous();
  message.requests.keep(flat);
  message.requests.send(group_->messages, bytes_of(flat), to, tag);
  message.other_rank = to;
  auto work = message.work;
  engine_->post(std::move(message));
  return work;
}

c10::intrusive_ptr<c10d::Work> MpiBackend::receive(
    c10d::OpType type, const char* name, Tensors1& tensors, int from, int tag) {
  const at::Tensor& tensor = only_tensor(name, tensors);
  check_tag(name, tag);
  Message message = new_message(type, name, tensor);
  auto buffers = std::make_shared<Tensors>();
  message.requests.keep(buffers);
  message.finish = [buffers] { buffers->store(); };
  message.requests.receive(
      group_->messages, buffers->output(tensor), from, tag);
  if (from != MPI_ANY_SOURCE) {
    message.other_rank = from;
  }
  auto work = message.work;
  engine_->post(std::move(message));
  return work;
}

c10::intrusive_ptr<c10d::Work> MpiBackend::recv(
    Tensors1& tensors, int from, int tag) {
  check_rank("recv", from, getSize());
  return receive(c10d::OpType::RECV, "recv", tensors, from, tag);
}

c10::intrusive_ptr<c10d::Work> MpiBackend::recvAnysource(
    Tensors1& tensors, int tag) {
  return receive(
      c10d::OpType::RECVANYSOURCE,
      "recv from any rank",
      tensors,
      MPI_ANY_SOURCE,
      tag);
}

}  // namespace accelerate::mpi
