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

Block copy_of(Offer offer) {
  return {offer.begin(), offer.end()};
}

}  // namespace

class FakeHub {
 public:
  explicit FakeHub(int size)
      : arrived_(size), present_(size, true), posts_(size) {}

  struct Post {
    Signature signature;
    std::vector<Block> blocks;  // one for all, or one per rank
  };

  void post(int rank, Post post) {
    const std::lock_guard lock(mutex_);
    posts_[rank] = std::move(post);
  }

  const Post& posted(int rank) const { return posts_[rank]; }

  void barrier(int rank, const Call& call, const Patience& patience) {
    std::unique_lock lock(mutex_);
    const auto target = ++arrived_[rank];
    changed_.notify_all();
    Wait wait(call, rank, patience);
    for (;;) {
      std::vector<int> late;
      std::vector<int> gone;
      for (int r = 0; r < static_cast<int>(arrived_.size()); ++r) {
        if (arrived_[r] < target) {
          (present_[r] ? late : gone).push_back(r);
        }
      }
      if (!gone.empty()) {
        wait.gone(gone);
      }
      if (late.empty()) {
        return;
      }
      wait.still_missing(late);
      changed_.wait_for(lock, wait.slice());
    }
  }

  void leave(int rank) {
    std::vector<Request> lost;
    {
      const std::lock_guard lock(mutex_);
      present_[rank] = false;
      for (auto request = requests_.begin(); request != requests_.end();) {
        const bool hopeless = request->to == rank || request->from == rank;
        if (hopeless) {
          lost.push_back(std::move(*request));
        }
        request = hopeless ? requests_.erase(request) : std::next(request);
      }
    }
    changed_.notify_all();
    for (Request& request : lost) {
      fail(request, rank);
    }
  }

  void send(int from, int to, int tag, Offer bytes) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back({from, to, tag, copy_of(bytes)});
    }
    match();
  }

  void receive(
      int from, int to, int tag, std::span<std::byte> bytes, Completion done) {
    Request request{from, to, tag, bytes, std::move(done)};
    bool hopeless = false;
    {
      const std::lock_guard lock(mutex_);
      hopeless = from != kAnyRank && !present_[from] && !has_message(request);
      if (!hopeless) {
        requests_.push_back(std::move(request));
      }
    }
    if (hopeless) {
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

  static void fail(Request& request, int gone) {
    request.done(
        std::make_exception_ptr(DistributedError(
            str_cat(
                "recv of rank ",
                request.to,
                ": rank ",
                gone,
                " has left the group"),
            str_cat("look for the own error of rank ", gone, " first"))),
        gone);
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
      hand_over(request, message);
    }
  }

  static void hand_over(Request& request, const Message& message) {
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
          "receive into a tensor of the shape and type that is sent"));
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

// Hubs that not all ranks have entered yet; each is kept alive here until then.
struct Lobby {
  std::mutex mutex;
  struct Entry {
    std::shared_ptr<FakeHub> hub;
    int missing;
  };
  std::map<std::string, Entry> hubs;
  int made = 0;
};

Lobby& lobby() {
  static Lobby instance;
  return instance;
}

}  // namespace

std::string open_fake_hub(int size) {
  Lobby& all = lobby();
  const std::lock_guard lock(all.mutex);
  const std::string name = str_cat(::getpid(), "-", ++all.made);
  all.hubs[name] = {std::make_shared<FakeHub>(size), size};
  return name;
}

FakeTransport::FakeTransport(
    const std::string& name, int rank, int size, Patience patience)
    : rank_(rank), size_(size), patience_(std::move(patience)) {
  Lobby& all = lobby();
  const std::lock_guard lock(all.mutex);
  const auto found = all.hubs.find(name);
  if (found == all.hubs.end()) {
    throw UnsupportedError(
        "the fake backend joins threads of one process, but the ranks are in "
        "different processes",
        "use backend `shm` or `gloo` between processes");
  }
  hub_ = found->second.hub;
  if (--found->second.missing == 0) {
    all.hubs.erase(found);
  }
}

FakeTransport::~FakeTransport() {
  hub_->leave(rank_);
}

void FakeTransport::deliver(
    const Call& call,
    const Signature& signature,
    const Offers& offers,
    const Consumer& consume) {
  FakeHub::Post post{signature, {}};
  if (offers.to_each.empty()) {
    post.blocks.push_back(copy_of(offers.to_all));
  }
  for (const Offer& offer : offers.to_each) {
    post.blocks.push_back(copy_of(offer));
  }
  hub_->post(rank_, std::move(post));
  hub_->barrier(rank_, call, patience_);
  std::vector<Signature> signatures;
  std::vector<Offer> parts;
  for (int r = 0; r < size_; ++r) {
    const FakeHub::Post& theirs = hub_->posted(r);
    signatures.push_back(theirs.signature);
    parts.emplace_back(theirs.blocks[theirs.blocks.size() > 1 ? rank_ : 0]);
  }
  // Everybody reads before anybody may post the next delivery, also when the
  // ranks disagree.
  std::exception_ptr mismatch;
  try {
    check_same(call, signatures);
    consume({0, parts});
  } catch (const MismatchError&) {
    mismatch = std::current_exception();
  }
  hub_->barrier(rank_, call, patience_);
  if (mismatch) {
    std::rethrow_exception(mismatch);
  }
}

void FakeTransport::send(
    int to, int tag, std::span<const std::byte> bytes, Completion done) {
  hub_->send(rank_, to, tag, bytes);
  done(nullptr, rank_);
}

void FakeTransport::receive(
    int from, int tag, std::span<std::byte> bytes, Completion done) {
  hub_->receive(from, rank_, tag, bytes, std::move(done));
}

}  // namespace accelerate
