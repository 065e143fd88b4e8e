// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/mpi_collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/backends/mpi/tags.h"

namespace accelerate::mpi {
namespace {

// From this size on, ranks pass a barrier before they move data, so that no
// rank spins while it waits for a late rank (see `Pause`). The barrier costs a
// few percent.
constexpr std::size_t kBarrierBytes = 256 << 10;

void copy(ConstBytes from, Bytes to) {
  if (!from.empty() && from.data() != to.data()) {
    std::memmove(to.data(), from.data(), from.size());
  }
}

}  // namespace

Collectives::Collectives(
    Group& group,
    Operation operation,
    std::function<void()> meanwhile,
    std::shared_ptr<void> owner)
    : group_(group),
      operation_(std::move(operation)),
      meanwhile_(std::move(meanwhile)),
      owner_(std::move(owner)),
      scratch_(std::make_shared<std::vector<std::byte>>()),
      result_(std::make_shared<std::vector<std::byte>>()) {
}

Requests Collectives::new_requests() {
  Requests requests(group_.runtime);
  requests.keep(owner_);
  requests.keep(scratch_);
  requests.keep(result_);
  return requests;
}

void Collectives::await(Requests& requests, std::size_t expected_bytes) {
  group_.await(requests, operation_, expected_bytes, meanwhile_);
}

// A dissemination barrier: log2(size) rounds.
void Collectives::barrier() {
  for (int distance = 1; distance < size(); distance *= 2) {
    Requests requests = new_requests();
    requests.receive(group_.collectives, {}, rank_at(-distance), kBarrierTag);
    requests.send(group_.collectives, {}, rank_at(distance), kBarrierTag);
    await(requests, 0);
  }
}

void Collectives::start_together(std::size_t total) {
  if (total >= kBarrierBytes && size() > 1) {
    barrier();
  }
}

// A binomial tree; each rank forwards a segment while it waits for the next.
void Collectives::broadcast(Bytes data, int root) {
  if (data.empty() || size() == 1) {
    return;
  }
  start_together(data.size());
  const int position = (rank() - root + size()) % size();
  int span = 1;  // The capacity of the subtree below this rank.
  while (span < size() && (position & span) == 0) {
    span *= 2;
  }
  Requests sends = new_requests();
  for (const Bytes segment : segments_of(data)) {
    if (position != 0) {
      Requests receive = new_requests();
      receive.receive(
          group_.collectives, segment, rank_at(-span), kBroadcastTag);
      await(receive, segment.size());
    }
    for (int child = span / 2; child > 0; child /= 2) {
      if (position + child < size()) {
        sends.send(group_.collectives, segment, rank_at(child), kBroadcastTag);
      }
    }
  }
  await(sends, data.size());
}

// After each round a rank holds twice as many blocks: its own and the blocks of
// the ranks that follow it.
void Collectives::all_gather_small(ConstBytes input, Bytes all) {
  const std::size_t bytes = input.size();
  const auto ranks = static_cast<std::size_t>(size());
  copy(input, all.first(bytes));
  for (std::size_t have = 1; have < ranks;) {
    const std::size_t count = std::min(have, ranks - have);
    const int distance = static_cast<int>(have);
    Requests requests = new_requests();
    requests.receive(
        group_.collectives,
        all.subspan(have * bytes, count * bytes),
        rank_at(distance),
        kGatherTag);
    requests.send(
        group_.collectives,
        all.first(count * bytes),
        rank_at(-distance),
        kGatherTag);
    await(requests, 0);
    have += count;
  }
}

void Collectives::exchange(
    const std::vector<ConstBytes>& to,
    const std::vector<Bytes>& from,
    std::size_t total) {
  start_together(total);
  Requests requests = new_requests();
  std::size_t bytes = 0;
  // Each rank starts with its neighbor, so that not all ranks send to rank 0
  // first.
  for (int step = 1; step < size(); ++step) {
    const int source = (rank() + size() - step) % size();
    const Bytes chunk = from[static_cast<std::size_t>(source)];
    if (!chunk.empty()) {
      requests.receive(group_.collectives, chunk, source, kExchangeTag);
      bytes += chunk.size();
    }
  }
  for (int step = 1; step < size(); ++step) {
    const int target = (rank() + step) % size();
    const ConstBytes chunk = to[static_cast<std::size_t>(target)];
    if (!chunk.empty()) {
      requests.send(group_.collectives, chunk, target, kExchangeTag);
      bytes += chunk.size();
    }
  }
  const auto own = static_cast<std::size_t>(rank());
  copy(to[own], from[own]);
  await(requests, bytes);
}

}  // namespace accelerate::mpi
