// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/shm_mailboxes.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMailboxPage = 4096;
constexpr milliseconds kLook(100);

// Written by both sides of a pair: `put` by the sender, `taken` by the
// receiver; both count bytes and never go back.
struct alignas(128) Ring {
  std::atomic<std::uint64_t> put;
  alignas(64) std::atomic<std::uint64_t> taken;
};

struct alignas(128) Doorbell {
  std::atomic<std::uint32_t> rings;
};

struct Frame {
  std::uint64_t bytes;
  std::int64_t tag;
};

// Room in one ring: 64 KiB while the rings of all pairs stay under 4 MiB.
std::size_t ring_room(int size) {
  const std::size_t pairs = static_cast<std::size_t>(size) * size;
  return std::clamp<std::size_t>(
      (std::size_t{4} << 20) / pairs / kMailboxPage * kMailboxPage,
      kMailboxPage,
      16 * kMailboxPage);
}

std::size_t ring_stride(int size) {
  return kMailboxPage + ring_room(size);
}

std::size_t doorbells_bytes(int size) {
  return (sizeof(Doorbell) * size + kMailboxPage - 1) / kMailboxPage *
         kMailboxPage;
}

void wait_for_ring(Doorbell& bell, std::uint32_t seen, milliseconds at_most) {
  const timespec time{
      at_most.count() / 1000,
      static_cast<long>(at_most.count() % 1000) * 1000000};
  ::syscall(SYS_futex, &bell.rings, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void ring(Doorbell& bell) {
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &bell.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// One direction of a pair, seen from one side.
class Pipe {
 public:
  Pipe(std::byte* where, std::size_t room)
      : ring_(reinterpret_cast<Ring*>(where)),
        data_(where + kMailboxPage),
        room_(room) {}

  /// Puts what fits of `bytes`; returns how many.
  std::size_t put(std::span<const std::byte> bytes) {
    const auto put = ring_->put.load(std::memory_order_relaxed);
    const auto taken = ring_->taken.load(std::memory_order_acquire);
    const auto n = std::min<std::size_t>(bytes.size(), room_ - (put - taken));
    const auto at = static_cast<std::size_t>(put % room_);
    const auto first = std::min(n, room_ - at);
    std::memcpy(data_ + at, bytes.data(), first);
    std::memcpy(data_, bytes.data() + first, n - first);
    ring_->put.store(put + n, std::memory_order_release);
    return n;
  }

  /// Takes at most `bytes.size()` bytes; returns how many.
  std::size_t take(std::span<std::byte> bytes) {
    const auto taken = ring_->taken.load(std::memory_order_relaxed);
    const auto put = ring_->put.load(std::memory_order_acquire);
    const auto n = std::min<std::size_t>(bytes.size(), put - taken);
    const auto at = static_cast<std::size_t>(taken % room_);
    const auto first = std::min(n, room_ - at);
    std::memcpy(bytes.data(), data_ + at, first);
    std::memcpy(bytes.data() + first, data_, n - first);
    ring_->taken.store(taken + n, std::memory_order_release);
    return n;
  }

 private:
  Ring* ring_;
  std::byte* data_;
  std::size_t room_;
};

struct Outgoing {
  Frame frame;
  std::span<const std::byte> bytes;
  Completion done;
  steady_clock::time_point deadline;
  std::size_t moved = 0;  // of frame and bytes together
};

struct Request {
  int from;
  int tag;
  std::span<std::byte> bytes;
  Completion done;
  steady_clock::time_point deadline;
};

struct Message {
  int from;
  int tag;
  std::vector<std::byte> bytes;
};

// A message on its way in, from one rank.
struct Incoming {
  Frame frame{};
  std::size_t moved = 0;
  std::vector<std::byte> kept;  // when nobody asked for it yet
  std::list<Request> asked_by;  // else: the one request it fills
};

}  // namespace

class ShmMailboxes::Impl {
 public:
  Impl(
      std::shared_ptr<SharedMemory> memory,
      std::byte* where,
      int rank,
      int size,
      Patience patience)
      : memory_(std::move(memory)),
        where_(where),
        rank_(rank),
        size_(size),
        patience_(std::move(patience)),
        outgoing_(size),
        incoming_(size),
        absences_(size) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ring(bell(rank_));
    if (thread_.joinable()) {
      thread_.join();
    }
    const auto stopped = std::make_exception_ptr(DistributedError(str_cat(
        "rank ",
        rank_,
        " destroyed its group before the message was "
        "sent or received")));
    for (auto& queue : outgoing_) {
      for (Outgoing& message : queue) {
        message.done(stopped, rank_);
      }
    }
    for (Incoming& in : incoming_) {
      requests_.splice(requests_.end(), in.asked_by);
    }
    for (Request& request : requests_) {
      request.done(stopped, request.from);
    }
  }

  void send(
      int to, int tag, std::span<const std::byte> bytes, Completion done) {
    post([&] {
      outgoing_[to].push_back(
          {{bytes.size(), tag}, bytes, std::move(done), deadline()});
    });
  }

  void receive(int from, int tag, std::span<std::byte> bytes, Completion done) {
    post([&] {
      requests_.push_back({from, tag, bytes, std::move(done), deadline()});
    });
  }

 private:
  template <typename Add>
  void post(const Add& add) {
    {
      const std::lock_guard lock(mutex_);
      add();
      if (!thread_.joinable()) {
        thread_ = std::thread([this] { run(); });
      }
    }
    ring(bell(rank_));
  }

  steady_clock::time_point deadline() const {
    return steady_clock::now() + patience_.timeout;
  }

  Doorbell& bell(int rank) const {
    return reinterpret_cast<Doorbell*>(where_)[rank];
  }

  Pipe pipe(int from, int to) const {
    std::byte* rings = where_ + doorbells_bytes(size_);
    return {rings + ring_stride(size_) * (from * size_ + to), ring_room(size_)};
  }

  // The thread. Completions are called without the lock.
  void run() {
    for (;;) {
      const auto seen = bell(rank_).rings.load(std::memory_order_seq_cst);
      bool moved = false;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
          return;
        }
        for (int peer = 0; peer < size_; ++peer) {
          const bool out = push_to(peer);
          const bool in = pull_from(peer);
          if (out || in) {
            ring(bell(peer));
            moved = true;
          }
        }
        fail_hopeless();
      }
      for (auto& [done, error, peer] : std::exchange(finished_, {})) {
        done(error, peer);
      }
      if (!moved) {
        wait_for_ring(bell(rank_), seen, kLook);
      }
    }
  }

  bool push_to(int peer) {
    auto& queue = outgoing_[peer];
    bool moved = false;
    while (!queue.empty()) {
      Outgoing& message = queue.front();
      Pipe out = pipe(rank_, peer);
      const auto frame = std::as_bytes(std::span(&message.frame, 1));
      std::size_t n = 0;
      if (message.moved < frame.size()) {
        n = out.put(frame.subspan(message.moved));
      } else {
        n = out.put(message.bytes.subspan(message.moved - frame.size()));
      }
      message.moved += n;
      moved = moved || n > 0;
      if (message.moved == frame.size() + message.bytes.size()) {
        finish(message.done, nullptr, rank_);
        queue.pop_front();
      } else if (n == 0) {
        break;
      }
    }
    return moved;
  }

  bool pull_from(int peer) {
    Incoming& in = incoming_[peer];
    Pipe source = pipe(peer, rank_);
    bool moved = false;
    for (;;) {
      const std::size_t n = in.moved < sizeof(Frame) ? pull_frame(in, source)
                                                     : pull_body(in, source);
      moved = moved || n > 0;
      if (in.moved >= sizeof(Frame) &&
          in.moved == in.frame.bytes + sizeof(Frame)) {
        deliver(peer, in);
        in = {};
      } else if (n == 0) {
        break;
      } else if (in.moved == sizeof(Frame)) {
        open(peer, in);
      }
    }
    give_kept();
    return moved;
  }

  static std::size_t pull_frame(Incoming& in, Pipe& source) {
    auto frame = std::as_writable_bytes(std::span(&in.frame, 1));
    const std::size_t n = source.take(frame.subspan(in.moved));
    in.moved += n;
    return n;
  }

  static std::size_t pull_body(Incoming& in, Pipe& source) {
    const std::span<std::byte> body =
        in.asked_by.empty() ? std::span(in.kept) : in.asked_by.front().bytes;
    const std::size_t n = source.take(body.subspan(in.moved - sizeof(Frame)));
    in.moved += n;
    return n;
  }

  // A frame is complete: does somebody wait for this message?
  void open(int peer, Incoming& in) {
    const auto tag = static_cast<int>(in.frame.tag);
    const bool older_kept =
        std::any_of(kept_.begin(), kept_.end(), [&](const Message& m) {
          return m.from == peer && m.tag == tag;
        });
    const auto wanted = older_kept ? requests_.end() : find(peer, tag);
    if (wanted != requests_.end() && wanted->bytes.size() == in.frame.bytes) {
      in.asked_by.splice(in.asked_by.end(), requests_, wanted);
    } else {
      in.kept.resize(in.frame.bytes);
    }
  }

  void deliver(int peer, Incoming& in) {
    if (in.asked_by.empty()) {
      kept_.push_back(
          {peer, static_cast<int>(in.frame.tag), std::move(in.kept)});
    } else {
      finish(in.asked_by.front().done, nullptr, peer);
    }
  }

  std::list<Request>::iterator find(int peer, int tag) {
    return std::find_if(
        requests_.begin(), requests_.end(), [&](const Request& request) {
          return request.tag == tag &&
                 (request.from == peer || request.from == kAnyRank);
        });
  }

  void give_kept() {
    for (auto message = kept_.begin(); message != kept_.end();) {
      const auto wanted = find(message->from, message->tag);
      if (wanted == requests_.end()) {
        ++message;
        continue;
      }
      std::exception_ptr error;
      if (wanted->bytes.size() == message->bytes.size()) {
        std::copy(
            message->bytes.begin(),
            message->bytes.end(),
            wanted->bytes.begin());
      } else {
        error = std::make_exception_ptr(MismatchError(
            str_cat(
                "rank ",
                rank_,
                " expects ",
                wanted->bytes.size(),
                " bytes from rank ",
                message->from,
                " (tag ",
                message->tag,
                "), which sent ",
                message->bytes.size()),
            "receive into a tensor of the shape and type that is sent"));
      }
      finish(wanted->done, error, message->from);
      requests_.erase(wanted);
      message = kept_.erase(message);
    }
  }

  // Messages that will never move: the other side is gone, or it is too late.
  void fail_hopeless() {
    const auto now = steady_clock::now();
    if (now < next_look_) {
      return;
    }
    next_look_ = now + kLook;
    look_for_gone();
    for (int peer = 0; peer < size_; ++peer) {
      auto& queue = outgoing_[peer];
      while (!queue.empty() && hopeless(peer, queue.front().deadline, now)) {
        finish(queue.front().done, failure("send", "to", peer), rank_);
        queue.pop_front();
      }
      fail_requests(incoming_[peer].asked_by, peer, now);
    }
    for (int from = kAnyRank; from < size_; ++from) {
      fail_requests(requests_, from, now);
    }
  }

  void fail_requests(
      std::list<Request>& requests, int peer, steady_clock::time_point now) {
    requests.remove_if([&](Request& request) {
      if (request.from != peer || !hopeless(peer, request.deadline, now)) {
        return false;
      }
      finish(request.done, failure("recv", "from", peer), peer);
      return true;
    });
  }

  // A rank counts as gone at the second look: what it put into the ring before
  // it ended is read in between.
  void look_for_gone() {
    for (int peer = 0; peer < size_; ++peer) {
      const bool present = peer == rank_ || memory_->is_present(peer);
      absences_[peer] = present ? 0 : absences_[peer] + 1;
    }
  }

  bool gone(int peer) const { return peer != kAnyRank && absences_[peer] > 1; }

  bool hopeless(
      int peer,
      steady_clock::time_point deadline,
      steady_clock::time_point now) const {
    return gone(peer) || now >= deadline ||
           (patience_.aborted != nullptr && patience_.aborted->load());
  }

  std::exception_ptr failure(
      const char* what, const char* direction, int peer) const {
    const std::string other =
        peer == kAnyRank ? "any rank" : str_cat("rank ", peer);
    return std::make_exception_ptr(DistributedError(
        str_cat(
            what,
            " of rank ",
            rank_,
            " ",
            direction,
            " ",
            other,
            ": ",
            gone(peer)
                ? "the process ended or destroyed its group"
                : str_cat(
                      "no answer within ", name_duration(patience_.timeout))),
        gone(peer)
            ? str_cat("look for the own error of ", other, " first")
            : str_cat("see whether ", other, " makes the matching call")));
  }

  void finish(Completion& done, std::exception_ptr error, int peer) {
    finished_.push_back({std::move(done), std::move(error), peer});
  }

  struct Finished {
    Completion done;
    std::exception_ptr error;
    int peer;
  };

  std::shared_ptr<SharedMemory> memory_;
  std::byte* where_;
  const int rank_;
  const int size_;
  const Patience patience_;

  std::mutex mutex_;  // Guards everything below.
  bool stopping_ = false;
  std::vector<std::deque<Outgoing>> outgoing_;
  std::vector<Incoming> incoming_;
  std::list<Request> requests_;
  std::list<Message> kept_;
  std::vector<int> absences_;
  std::vector<Finished> finished_;
  steady_clock::time_point next_look_{};
  std::thread thread_;
};

std::size_t ShmMailboxes::bytes(int size) {
  return doorbells_bytes(size) +
         ring_stride(size) * static_cast<std::size_t>(size) * size;
}

ShmMailboxes::ShmMailboxes(
    std::shared_ptr<SharedMemory> memory,
    std::byte* where,
    int rank,
    int size,
    Patience patience)
    : impl_(std::make_unique<Impl>(
          std::move(memory), where, rank, size, std::move(patience))) {
}

ShmMailboxes::~ShmMailboxes() = default;

void ShmMailboxes::send(
    int to, int tag, std::span<const std::byte> bytes, Completion done) {
  impl_->send(to, tag, bytes, std::move(done));
}

void ShmMailboxes::receive(
    int from, int tag, std::span<std::byte> bytes, Completion done) {
  impl_->receive(from, tag, bytes, std::move(done));
}

}  // namespace accelerate
