// SPDX-License-Identifier: Apache-2.0
#include "data/dispatch.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "comm/run_collectively.h"

namespace accelerate {
namespace {

enum Kind : std::int64_t { kStep, kEnd, kError };

using Tensors = std::vector<at::Tensor>;

std::int64_t bytes_of(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    bytes += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  }
  return bytes;
}

// Packs tensors one after the other.
void pack(const Tensors& tensors, std::byte* memory) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.numel() > 0) {
      // A lazy conjugate or negative is only a flag, which the bytes lack.
      const at::Tensor source =
          tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
      std::memcpy(memory, source.const_data_ptr(), source.nbytes());
      memory += source.nbytes();
    }
  }
}

void unpack(const std::byte* memory, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.numel() > 0) {
      std::memcpy(tensor.mutable_data_ptr(), memory, tensor.nbytes());
      memory += tensor.nbytes();
    }
  }
}

std::byte* data_of(const at::Tensor& bytes) {
  return static_cast<std::byte*>(bytes.mutable_data_ptr());
}

}  // namespace

// The numbers that describe a step; rank 0 broadcasts them.
struct Dispatch::Header {
  static constexpr std::int64_t kFirst = 4;
  static constexpr std::int64_t kPerRank = 3;

  explicit Header(int ranks)
      : tensor(at::zeros(
            {kFirst + kPerRank * ranks}, at::TensorOptions(at::kLong))),
        numbers(tensor.mutable_data_ptr<std::int64_t>()) {}

  std::int64_t& kind() { return numbers[0]; }
  std::int64_t& structures_follow() { return numbers[1]; }
  std::int64_t& used() { return numbers[2]; }
  /// The size of the largest batch.
  std::int64_t& bytes() { return numbers[3]; }
  std::int64_t* rank(int r) const { return numbers + kFirst + kPerRank * r; }

  void set(int r, const Portion& portion) const {
    rank(r)[0] = portion.rows;
    rank(r)[1] = portion.valid_rows;
    rank(r)[2] = portion.last ? 1 : 0;
  }
  Portion portion(int r) const {
    return {
        .rows = rank(r)[0], .valid_rows = rank(r)[1], .last = rank(r)[2] != 0};
  }

  at::Tensor tensor;
  std::int64_t* numbers;
};

Dispatch::Dispatch(
    Group group,
    std::shared_ptr<detail::BatchSource> source,
    std::unique_ptr<StepReader> reader)
    : group_(std::move(group)),
      call_(group_, "next_batch"),
      source_(std::move(source)),
      reader_(std::move(reader)) {
}

std::optional<Step> Dispatch::next() {
  if (next_step_) {
    return std::exchange(next_step_, std::nullopt);
  }
  return ended_ ? std::nullopt : exchange();
}

std::optional<Step> Dispatch::exchange() {
  Header header(group_.size());
  std::optional<Step> read;
  if (group_.rank() == 0) {
    read = read_step(header);
  }
  call_.begin();
  call_.agree();
  call_.broadcast(header.tensor, 0);
  if (header.kind() != kStep) {
    ended_ = true;
    throw_read_error();
    return std::nullopt;
  }
  broadcast_structures(header, read);
  Step local{
      .portions = {header.portion(group_.rank())}, .used = header.used()};
  if (read) {
    local.portions.front() = read->portions.front();
    local.stream_state = std::move(read->stream_state);
    send(*read, header.bytes());
  } else {
    receive(local.portions.front(), header.bytes());
  }
  if (local.portions.front().rows == 0) {
    ended_ = true;
    return std::nullopt;
  }
  ended_ = local.portions.front().last;
  // Ranks that have no batch in the next step make no further calls, so the
  // next step is exchanged during this call.
  if (a_rank_is_ahead(header)) {
    next_step_ = exchange();
    ended_ = true;
  }
  return local;
}

// Whether this is the last batch of some rank but not of another.
bool Dispatch::a_rank_is_ahead(const Header& header) const {
  bool ends = false;
  bool continues = false;
  for (int r = 0; r < group_.size(); ++r) {
    const Portion portion = header.portion(r);
    ends = ends || portion.last;
    continues = continues || (portion.rows > 0 && !portion.last);
  }
  return ends && continues;
}

std::optional<Step> Dispatch::read_step(Header& header) {
  std::optional<Step> step;
  try {
    step = reader_->next();
  } catch (...) {
    error_ = std::current_exception();
    header.kind() = kError;
    return std::nullopt;
  }
  header.kind() = step ? kStep : kEnd;
  if (!step) {
    return step;
  }
  header.used() = step->used;
  Json structures = Json::array();
  for (int r = 0; r < group_.size(); ++r) {
    const Portion& portion = step->portions[static_cast<std::size_t>(r)];
    header.set(r, portion);
    structures.push_back(
        portion.batch ? source_->describe(portion.batch.get()) : Json());
    if (r > 0) {
      header.bytes() = std::max(header.bytes(), bytes_of(tensors_of(portion)));
    }
  }
  header.structures_follow() = structures == structures_ ? 0 : 1;
  structures_ = std::move(structures);
  return step;
}

void Dispatch::broadcast_structures(
    Header& header, const std::optional<Step>& step) {
  if (header.structures_follow() == 0) {
    return;
  }
  std::vector<Json> list = {step ? structures_ : Json()};
  group_.broadcast_object_list(list);
  structures_ = std::move(list.front());
  ++structures_sent_;
}

void Dispatch::throw_read_error() {
  run_collectively(
      group_, "rank 0 failed while reading the data for all ranks", [this] {
        if (error_) {
          std::rethrow_exception(error_);
        }
      });
}

std::vector<at::Tensor> Dispatch::tensors_of(const Portion& portion) const {
  return portion.batch ? source_->tensors(portion.batch.get()) : Tensors();
}

// A scatter needs parts of equal size, so each batch is padded to the size of
// the largest.
void Dispatch::send(const Step& step, std::int64_t bytes) {
  if (bytes == 0) {
    return;
  }
  const at::Tensor batches =
      at::empty({bytes * group_.size()}, at::TensorOptions(at::kByte));
  for (int r = 1; r < group_.size(); ++r) {
    pack(
        tensors_of(step.portions[static_cast<std::size_t>(r)]),
        data_of(batches) + bytes * r);
  }
  call_.scatter(
      at::empty({bytes}, at::TensorOptions(at::kByte)), batches, /*from=*/0);
}

void Dispatch::receive(Portion& portion, std::int64_t bytes) {
  const at::Tensor batch = at::empty({bytes}, at::TensorOptions(at::kByte));
  if (bytes > 0) {
    call_.scatter(batch, {}, /*from=*/0);
  }
  if (portion.rows > 0) {
    const auto rank = static_cast<std::size_t>(group_.rank());
    portion.batch = source_->build(structures_.at(rank));
    unpack(data_of(batch), tensors_of(portion));
  }
}

}  // namespace accelerate
