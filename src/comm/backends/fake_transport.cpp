// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/fake_transport.h"

#include <algorithm>
#include <condition_variable>
#include <list>
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
    std::vector<Block> blocks;  // one for all ranks, or one per rank
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
    std::vector<Request> failed;
    {
      const std::lock_guard lock(mutex_);
      present_[rank] = false;
      for (auto request = requests_.begin(); request != requests_.end();) {
        const bool cannot_complete =
            request->to == rank || request->from == rank;
        if (cannot_complete) {
          failed.push_back(std::move(*request));
        }
        request =
            cannot_complete ? requests_.erase(request) : std::next(request);
      }
    }
    changed_.notify_all();
    for (Request& request : failed) {
      fail(request, rank);
    }
  }

  void send(int from, int to, int tag, SendBuffer bytes) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back({from, to, tag, copy_of(bytes)});
    }
    match();
  }

  void receive(
      int from, int to, int tag, std::span<std::byte> bytes, Completion done) {
    Request request{from, to, tag, bytes, std::move(done)};
    bool cannot_complete = false;
    {
      const std::lock_guard lock(mutex_);
      cannot_complete =
          from != kAnyRank && !present_[from] && !has_message(request);
      if (!cannot_complete) {
        requests_.push_back(std::move(request));
      }
    }
    if (cannot_complete) {
      fail(request, from);
      return;
    }
    match();
  }

 private:
  struct Message {
    int from;
    int to;
    int tag;
    Block bytes;
  };
  struct Request {
    int from;
    int to;
    int tag;
    std::span<std::byte> bytes;
    Completion done;
  };

  static bool fits(const Message& message, const Request& request) {
    return message.to == request.to && message.tag == request.tag &&
           (request.from == kAnyRank || request.from == message.from);
  }

  bool has_message(const Request& request) const {
    return std::any_of(
        messages_.begin(), messages_.end(), [&](const Message& message) {
          return fits(message, request);
        });
  }

  static void fail(Request& request, int exited) {
    request.done(
        std::make_exception_ptr(DistributedError(
            str_cat(
                "recv on rank ",
                request.to,
                ": rank ",
                exited,
                " destroyed its process group"),
            str_cat("the root cause is in the log of rank ", exited))),
        exited);
  }

  void match() {
    std::vector<std::pair<Request, Message>> pairs;
    {
      const std::lock_guard lock(mutex_);
      for (auto message = messages_.begin(); message != messages_.end();) {
        const auto request = std::find_if(
            requests_.begin(), requests_.end(), [&](const Request& r) {
              return fits(*message, r);
            });
        if (request == requests_.end()) {
          ++message;
          continue;
        }
        pairs.emplace_back(std::move(*request), std::move(*message));
        requests_.erase(request);
        message = messages_.erase(message);
      }
    }
    for (auto& [request, message] : pairs) {
      complete(request, message);
    }
  }

  static void complete(Request& request, const Message& message) {
    std::exception_ptr error;
    if (request.bytes.size() == message.bytes.size()) {
      std::copy(
          message.bytes.begin(), message.bytes.end(), request.bytes.begin());
    } else {
      error = std::make_exception_ptr(MismatchError(
          str_cat(
              "rank ",
              request.to,
              " expects ",
              request.bytes.size(),
              " bytes from rank ",
              message.from,
              " (tag ",
              message.tag,
              "), which sent ",
              message.bytes.size()),
          "receive into a tensor with the shape and type of the sent tensor"));
    }
    request.done(error, message.from);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> arrived_;
  std::vector<char> present_;
  std::vector<Post> posts_;
  std::list<Message> messages_;
  std::list<Request> requests_;
};

namespace {

// Networks that not all ranks have joined yet; kept alive until then.
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

void FakeTransport::send(
    int to, int tag, std::span<const std::byte> bytes, Completion done) {
  network_->send(rank_, to, tag, bytes);
  done(nullptr, rank_);
}

void FakeTransport::receive(
    int from, int tag, std::span<std::byte> bytes, Completion done) {
  network_->receive(from, rank_, tag, bytes, std::move(done));
}

}  // namespace accelerate
