// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/mpi_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <torch/headeronly/version.h>

#include "accelerate/export.h"
#include "comm/backends/mpi/pause.h"

namespace accelerate::mpi {
namespace {

// The first message of a rank in a delivery. If there are only a few bytes for
// the receiver, the same message contains them.
struct Header {
  Signature signature;
  std::uint64_t bytes;    // for the receiver
  std::uint64_t longest;  // the longest send buffer of the sender
};

constexpr std::size_t kMaxMessage = 4096;
constexpr std::size_t kMaxInline = kMaxMessage - sizeof(Header);

// Limits the memory for received chunks, and keeps a chunk in the last-level
// cache until it is consumed.
std::size_t chunk_bytes_for(int size) {
  const std::size_t share =
      (std::size_t{32} << 20) / static_cast<std::size_t>(size) / 4096 * 4096;
  return std::clamp<std::size_t>(share, 64 << 10, 4 << 20);
}

SendBuffer chunk_of(SendBuffer buffer, std::size_t offset, std::size_t most) {
  const std::size_t begin = std::min(offset, buffer.size());
  return buffer.subspan(begin, std::min(most, buffer.size() - begin));
}

SendBuffer buffer_for(const SendBuffers& buffers, int rank) {
  return buffers.to_each.empty()
             ? buffers.to_all
             : buffers.to_each[static_cast<std::size_t>(rank)];
}

}  // namespace

// The sizes of a delivery, from the headers of all ranks.
struct MpiTransport::Plan {
  std::vector<std::size_t> lengths;  // bytes from each rank to this rank
  std::size_t longest = 0;
};

MpiTransport::MpiTransport(
    std::unique_ptr<Group> group,
    WaitLimits limits,
    std::function<std::vector<int>()> exited_ranks)
    : group_(std::move(group)),
      limits_(std::move(limits)),
      exited_ranks_(std::move(exited_ranks)),
      chunk_bytes_(chunk_bytes_for(group_->size)),
      received_(std::make_shared<std::vector<std::byte>>()),
      departure_(std::make_shared<Departure>(*group_)) {
  closer_ = group_->runtime.before_finalize(
      [departure = departure_] { departure->leave(); });
}

MpiTransport::~MpiTransport() {
  group_->runtime.forget(closer_);
  departure_->leave();
}

// Each rank starts with its neighbor, so that not all ranks send to rank 0
// first. Empty buffers are not sent.
void MpiTransport::exchange(
    const Call& call,
    int tag,
    std::span<const SendBuffer> to_each,
    std::span<const Bytes> from_each,
    std::shared_ptr<const void> sent) {
  Requests requests(group_->runtime);
  requests.keep(std::move(sent));
  requests.keep(received_);
  std::size_t bytes = 0;
  for (int step = 1; step < size(); ++step) {
    const int from = (rank() + size() - step) % size();
    if (!from_each[from].empty()) {
      requests.receive(group_->communicator, from_each[from], from, tag);
      bytes += from_each[from].size();
    }
  }
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size();
    if (!to_each[to].empty()) {
      requests.send(group_->communicator, to_each[to], to, tag);
    }
  }
  await(requests, call, bytes);
}

MpiTransport::Plan MpiTransport::exchange_headers(
    const Call& call, const Signature& signature, const SendBuffers& buffers) {
  Header header{signature, 0, 0};
  for (int to = 0; to < size(); ++to) {
    header.longest =
        std::max<std::uint64_t>(header.longest, buffer_for(buffers, to).size());
  }
  const std::size_t bytes = kMaxMessage * static_cast<std::size_t>(size());
  const auto sent = std::make_shared<std::vector<std::byte>>(bytes);
  received_->resize(std::max(received_->size(), bytes));
  std::vector<SendBuffer> to_each;
  std::vector<Bytes> from_each;
  for (int r = 0; r < size(); ++r) {
    const SendBuffer part = buffer_for(buffers, r);
    header.bytes = part.size();
    std::byte* message = sent->data() + kMaxMessage * r;
    std::memcpy(message, &header, sizeof header);
    const std::size_t inline_bytes =
        part.size() <= kMaxInline ? part.size() : 0;
    std::copy_n(part.data(), inline_bytes, message + sizeof header);
    to_each.emplace_back(message, sizeof header + inline_bytes);
    from_each.push_back(
        Bytes(*received_).subspan(kMaxMessage * r, kMaxMessage));
  }
  exchange(call, kHeaderTag, to_each, from_each, sent);
  std::memcpy(
      from_each[rank()].data(), to_each[rank()].data(), to_each[rank()].size());

  Plan plan;
  std::vector<Signature> signatures;
  for (const Bytes message : from_each) {
    std::memcpy(&header, message.data(), sizeof header);
    signatures.push_back(header.signature);
    plan.lengths.push_back(header.bytes);
    plan.longest = std::max<std::size_t>(plan.longest, header.longest);
  }
  check_same(call, signatures);
  return plan;
}

void MpiTransport::deliver(
    const Call& call,
    const Signature& signature,
    const SendBuffers& buffers,
    const Consumer& consume) {
  departure_->begin_delivery();
  const Plan plan = exchange_headers(call, signature, buffers);
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<SendBuffer> parts(ranks);
  if (plan.longest <= kMaxInline) {
    for (std::size_t r = 0; r < ranks; ++r) {
      parts[r] =
          SendBuffer(*received_)
              .subspan(kMaxMessage * r + sizeof(Header), plan.lengths[r]);
    }
    consume({0, parts});
    return;
  }
  received_->resize(std::max(received_->size(), chunk_bytes_ * ranks));
  std::vector<SendBuffer> to_each(ranks);
  std::vector<Bytes> from_each(ranks);
  for (std::size_t offset = 0; offset < plan.longest; offset += chunk_bytes_) {
    for (std::size_t r = 0; r < ranks; ++r) {
      to_each[r] = chunk_of(
          buffer_for(buffers, static_cast<int>(r)), offset, chunk_bytes_);
      const std::size_t left =
          plan.lengths[r] - std::min(offset, plan.lengths[r]);
      from_each[r] =
          Bytes(*received_)
              .subspan(chunk_bytes_ * r, std::min(left, chunk_bytes_));
      parts[r] = from_each[r];
    }
    exchange(call, kDataTag, to_each, from_each, call.memory);
    parts[rank()] = to_each[rank()];
    consume({offset, parts});
  }
}

std::vector<int> MpiTransport::departed(const std::vector<int>& ranks) const {
  std::vector<int> result;
  const std::vector<int> exited =
      exited_ranks_ ? exited_ranks_() : std::vector<int>();
  for (const int rank : ranks) {
    if (departure_->has_left(rank) ||
        std::find(exited.begin(), exited.end(), rank) != exited.end()) {
      result.push_back(rank);
    }
  }
  return result;
}

void MpiTransport::await(
    Requests& requests, const Call& call, std::size_t bytes) {
  constexpr auto kCheckInterval = std::chrono::milliseconds(20);
  Wait wait(call, rank(), limits_);
  Pause pause(bytes);
  auto next_check = Clock::now() + kCheckInterval;
  departure_->set_exchanging(true);
  while (!requests.test()) {
    if (!pause() || Clock::now() < next_check) {
      continue;
    }
    next_check = Clock::now() + kCheckInterval;
    const std::vector<int> missing = requests.waiting_for();
    const std::vector<int> gone = departed(missing);
    if (!gone.empty()) {
      wait.throw_exited(gone);
    }
    wait.still_missing(missing);
  }
  departure_->set_exchanging(false);
}

namespace {

Transport* create(const PluginGroupOptions& options) {
  return new MpiTransport(
      std::make_unique<Group>(options), options.limits, options.exited_ranks);
}

}  // namespace
}  // namespace accelerate::mpi

// The entry point of libaccelerate_mpi.so.
extern "C" ACCELERATE_API const accelerate::BackendPlugin*
accelerate_backend_plugin() {
  static constexpr accelerate::BackendPlugin kPlugin = {
      accelerate::kPluginAbi, TORCH_VERSION, "mpi", &accelerate::mpi::create};
  return &kPlugin;
}
