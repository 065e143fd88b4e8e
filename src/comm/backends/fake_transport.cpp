// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/fake_transport.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

using Block = std::vector<std::byte>;

Block copy_of(SendBuffer buffer) {
  return {buffer.begin(), buffer.end()};
}

}  // namespace

class FakeNetwork {
 public:
  explicit FakeNetwork(int size)
      : arrived_(size), present_(size, true), posts_(size) {}

  struct Post {
    Signature signature;
    std::vector<Block> blocks;  // one block for all ranks, or one per rank
  };

  void post(int rank, Post post) {
    const std::lock_guard lock(mutex_);
    posts_[rank] = std::move(post);
  }

  const Post& posted(int rank) const { return posts_[rank]; }

  void barrier(int rank, const Call& call, const WaitLimits& limits) {
    std::unique_lock lock(mutex_);
    const auto target = ++arrived_[rank];
    changed_.notify_all();
    Wait wait(call, rank, limits);
    for (;;) {
      std::vector<int> late;
      std::vector<int> exited;
      for (int r = 0; r < static_cast<int>(arrived_.size()); ++r) {
        if (arrived_[r] < target) {
          (present_[r] ? late : exited).push_back(r);
        }
      }
      if (!exited.empty()) {
        wait.throw_exited(exited);
      }
      if (late.empty()) {
        return;
      }
      wait.still_missing(late);
      changed_.wait_for(lock, wait.slice());
    }
  }

  void leave(int rank) {
    {
      const std::lock_guard lock(mutex_);
      present_[rank] = false;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> arrived_;
  std::vector<char> present_;
  std::vector<Post> posts_;
};

namespace {

// Keeps each network alive until all ranks have joined the network.
struct NetworkRegistry {
  std::mutex mutex;
  struct Entry {
    std::shared_ptr<FakeNetwork> network;
    int missing;
  };
  std::map<std::string, Entry> networks;
  int created = 0;
};

NetworkRegistry& network_registry() {
  static NetworkRegistry instance;
  return instance;
}

}  // namespace

std::string open_fake_network(int size) {
  NetworkRegistry& registry = network_registry();
  const std::lock_guard lock(registry.mutex);
  const std::string name = str_cat(::getpid(), "-", ++registry.created);
  registry.networks[name] = {std::make_shared<FakeNetwork>(size), size};
  return name;
}

FakeTransport::FakeTransport(
    const std::string& name, int rank, int size, WaitLimits limits)
    : rank_(rank), size_(size), limits_(std::move(limits)) {
  NetworkRegistry& registry = network_registry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.networks.find(name);
  if (found == registry.networks.end()) {
    throw UnsupportedError(
        "the `fake` backend connects only threads in one process, but the "
        "ranks are in different processes",
        "use backend `shm` or `gloo` between processes");
  }
  network_ = found->second.network;
  if (--found->second.missing == 0) {
    registry.networks.erase(found);
  }
}

FakeTransport::~FakeTransport() {
  network_->leave(rank_);
}

void FakeTransport::deliver(
    const Call& call,
    const Signature& signature,
    const SendBuffers& buffers,
    const Consumer& consume) {
  FakeNetwork::Post post{signature, {}};
  if (buffers.to_each.empty()) {
    post.blocks.push_back(copy_of(buffers.to_all));
  }
  for (const SendBuffer& buffer : buffers.to_each) {
    post.blocks.push_back(copy_of(buffer));
  }
  network_->post(rank_, std::move(post));
  network_->barrier(rank_, call, limits_);
  std::vector<Signature> signatures;
  std::vector<SendBuffer> parts;
  for (int r = 0; r < size_; ++r) {
    const FakeNetwork::Post& received = network_->posted(r);
    signatures.push_back(received.signature);
    parts.emplace_back(received.blocks[received.blocks.size() > 1 ? rank_ : 0]);
  }
  // All ranks must have read this delivery before any rank posts the next one,
  // even after a mismatch.
  std::exception_ptr mismatch;
  try {
    check_same(call, signatures);
    consume({0, parts});
  } catch (const MismatchError&) {
    mismatch = std::current_exception();
  }
  network_->barrier(rank_, call, limits_);
  if (mismatch) {
    std::rethrow_exception(mismatch);
  }
}

}  // namespace accelerate
