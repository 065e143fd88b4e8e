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
constexpr milliseconds kCheckInterval(100);

// The sender updates `put`, the receiver `taken`. Both count bytes and never
// decrease.
struct alignas(128) RingCounters {
  std::atomic<std::uint64_t> put;
  alignas(64) std::atomic<std::uint64_t> taken;
};

struct alignas(128) Doorbell {
  std::atomic<std::uint32_t> count;
};

struct Frame {
  std::uint64_t bytes;
  std::int64_t tag;
};

// Capacity of one ring buffer: 64 KiB, or less if the ring buffers of all pairs
// would need more than 4 MiB.
std::size_t ring_capacity(int size) {
  const std::size_t pairs = static_cast<std::size_t>(size) * size;
  return std::clamp<std::size_t>(
      (std::size_t{4} << 20) / pairs / kMailboxPage * kMailboxPage,
      kMailboxPage,
      16 * kMailboxPage);
}

std::size_t ring_stride(int size) {
  return kMailboxPage + ring_capacity(size);
}

std::size_t doorbells_bytes(int size) {
  return (sizeof(Doorbell) * size + kMailboxPage - 1) / kMailboxPage *
         kMailboxPage;
}

void wait_for_doorbell(
    Doorbell& bell, std::uint32_t seen, milliseconds timeout) {
  const timespec time{
      timeout.count() / 1000,
      static_cast<long>(timeout.count() % 1000) * 1000000};
  ::syscall(SYS_futex, &bell.count, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void ring_doorbell(Doorbell& bell) {
  bell.count.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &bell.count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// The ring buffer from one rank to another.
class RingBuffer {
 public:
  RingBuffer(std::byte* base, std::size_t capacity)
      : ring_(reinterpret_cast<RingCounters*>(base)),
        data_(base + kMailboxPage),
        capacity_(capacity) {}

  /// Writes as many of `bytes` as fit; returns how many.
  std::size_t put(std::span<const std::byte> bytes) {
    const auto put = ring_->put.load(std::memory_order_relaxed);
    const auto taken = ring_->taken.load(std::memory_order_acquire);
    const auto n =
        std::min<std::size_t>(bytes.size(), capacity_ - (put - taken));
    const auto at = static_cast<std::size_t>(put % capacity_);
    const auto first = std::min(n, capacity_ - at);
    std::memcpy(data_ + at, bytes.data(), first);
    std::memcpy(data_, bytes.data() + first, n - first);
    ring_->put.store(put + n, std::memory_order_release);
    return n;
  }

  /// Reads at most `bytes.size()` bytes; returns how many.
  std::size_t take(std::span<std::byte> bytes) {
    const auto taken = ring_->taken.load(std::memory_order_relaxed);
    const auto put = ring_->put.load(std::memory_order_acquire);
    const auto n = std::min<std::size_t>(bytes.size(), put - taken);
    const auto at = static_cast<std::size_t>(taken % capacity_);
    const auto first = std::min(n, capacity_ - at);
    std::memcpy(bytes.data(), data_ + at, first);
    std::memcpy(bytes.data() + first, data_, n - first);
    ring_->taken.store(taken + n, std::memory_order_release);
    return n;
  }

 private:
  RingCounters* ring_;
  std::byte* data_;
  std::size_t capacity_;
};

struct Outgoing {
  Frame frame;
  std::span<const std::byte> bytes;
  Completion done;
  steady_clock::time_point deadline;
  std::size_t moved = 0;  // in bytes, including the frame
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

// A partly received message.
struct Incoming {
  Frame frame{};
  std::size_t moved = 0;
  std::vector<std::byte> unclaimed;  // used if there is no matching receive
  std::list<Request> request;        // the matching receive, if any
};

}  // namespace

class ShmMailboxes::Impl {
 public:
  Impl(
      std::shared_ptr<SharedMemory> memory,
      std::byte* base,
      int rank,
      int size,
      WaitLimits limits)
      : memory_(std::move(memory)),
        base_(base),
        rank_(rank),
        size_(size),
        limits_(std::move(limits)),
        outgoing_(size),
        incoming_(size),
        absences_(size) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ring_doorbell(doorbell(rank_));
    if (thread_.joinable()) {
      thread_.join();
    }
    const auto stopped = std::make_exception_ptr(DistributedError(str_cat(
        "rank ",
        rank_,
        " destroyed its process group before the message was "
        "sent or received")));
    for (auto& queue : outgoing_) {
      for (Outgoing& message : queue) {
        message.done(stopped, rank_);
      }
    }
    for (Incoming& in : incoming_) {
      requests_.splice(requests_.end(), in.request);
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
    ring_doorbell(doorbell(rank_));
  }

  steady_clock::time_point deadline() const {
    return steady_clock::now() + limits_.timeout;
  }

  Doorbell& doorbell(int rank) const {
    return reinterpret_cast<Doorbell*>(base_)[rank];
  }

  RingBuffer ring_buffer(int from, int to) const {
    std::byte* rings = base_ + doorbells_bytes(size_);
    return {
        rings + ring_stride(size_) * (from * size_ + to), ring_capacity(size_)};
  }

  // The thread's loop. Completions are called without the lock.
  void run() {
    for (;;) {
      const auto seen = doorbell(rank_).count.load(std::memory_order_seq_cst);
      bool moved = false;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
          return;
        }
        for (int other_rank = 0; other_rank < size_; ++other_rank) {
          const bool out = push_to(other_rank);
          const bool in = pull_from(other_rank);
          if (out || in) {
            ring_doorbell(doorbell(other_rank));
            moved = true;
          }
        }
        fail_impossible();
      }
      for (auto& [done, error, other_rank] : std::exchange(finished_, {})) {
        done(error, other_rank);
      }
      if (!moved) {
        wait_for_doorbell(doorbell(rank_), seen, kCheckInterval);
      }
    }
  }

  bool push_to(int other_rank) {
    auto& queue = outgoing_[other_rank];
    bool moved = false;
    while (!queue.empty()) {
      Outgoing& message = queue.front();
      RingBuffer out = ring_buffer(rank_, other_rank);
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

  bool pull_from(int other_rank) {
    Incoming& in = incoming_[other_rank];
    RingBuffer source = ring_buffer(other_rank, rank_);
    bool moved = false;
    for (;;) {
      const std::size_t n = in.moved < sizeof(Frame) ? pull_frame(in, source)
                                                     : pull_body(in, source);
      moved = moved || n > 0;
      if (in.moved >= sizeof(Frame) &&
          in.moved == in.frame.bytes + sizeof(Frame)) {
        deliver(other_rank, in);
        in = {};
      } else if (n == 0) {
        break;
      } else if (in.moved == sizeof(Frame)) {
        open(other_rank, in);
      }
    }
    match_unclaimed();
    return moved;
  }

  static std::size_t pull_frame(Incoming& in, RingBuffer& source) {
    auto frame = std::as_writable_bytes(std::span(&in.frame, 1));
    const std::size_t n = source.take(frame.subspan(in.moved));
    in.moved += n;
    return n;
  }

  static std::size_t pull_body(Incoming& in, RingBuffer& source) {
    const std::span<std::byte> body =
        in.request.empty() ? std::span(in.unclaimed) : in.request.front().bytes;
    const std::size_t n = source.take(body.subspan(in.moved - sizeof(Frame)));
    in.moved += n;
    return n;
  }

  // Called when the frame is complete; looks for a matching receive.
  void open(int other_rank, Incoming& in) {
    const auto tag = static_cast<int>(in.frame.tag);
    const bool has_older_message = std::any_of(
        unclaimed_.begin(), unclaimed_.end(), [&](const Message& m) {
          return m.from == other_rank && m.tag == tag;
        });
    const auto matching =
        has_older_message ? requests_.end() : find(other_rank, tag);
    if (matching != requests_.end() &&
        matching->bytes.size() == in.frame.bytes) {
      in.request.splice(in.request.end(), requests_, matching);
    } else {
      in.unclaimed.resize(in.frame.bytes);
    }
  }

  void deliver(int other_rank, Incoming& in) {
    if (in.request.empty()) {
      unclaimed_.push_back(
          {other_rank,
           static_cast<int>(in.frame.tag),
           std::move(in.unclaimed)});
    } else {
      finish(in.request.front().done, nullptr, other_rank);
    }
  }

  std::list<Request>::iterator find(int other_rank, int tag) {
    return std::find_if(
        requests_.begin(), requests_.end(), [&](const Request& request) {
          return request.tag == tag &&
                 (request.from == other_rank || request.from == kAnyRank);
        });
  }

  void match_unclaimed() {
    for (auto message = unclaimed_.begin(); message != unclaimed_.end();) {
      const auto matching = find(message->from, message->tag);
      if (matching == requests_.end()) {
        ++message;
        continue;
      }
      std::exception_ptr error;
      if (matching->bytes.size() == message->bytes.size()) {
        std::copy(
            message->bytes.begin(),
            message->bytes.end(),
            matching->bytes.begin());
      } else {
        error = std::make_exception_ptr(MismatchError(
            str_cat(
                "rank ",
                rank_,
                " expects ",
                matching->bytes.size(),
                " bytes from rank ",
                message->from,
                " (tag ",
                message->tag,
                "), which sent ",
                message->bytes.size()),
            "receive into a tensor with the shape and type of the sent "
            "tensor"));
      }
      finish(matching->done, error, message->from);
      requests_.erase(matching);
      message = unclaimed_.erase(message);
    }
  }

  // Fails messages that cannot complete: the other rank has exited, the timeout
  // has passed, or the group was aborted.
  void fail_impossible() {
    const auto now = steady_clock::now();
    if (now < next_check_) {
      return;
    }
    next_check_ = now + kCheckInterval;
    check_presence();
    for (int other_rank = 0; other_rank < size_; ++other_rank) {
      auto& queue = outgoing_[other_rank];
      while (!queue.empty() &&
             cannot_complete(other_rank, queue.front().deadline, now)) {
        finish(queue.front().done, failure("send", "to", other_rank), rank_);
        queue.pop_front();
      }
      fail_requests(incoming_[other_rank].request, other_rank, now);
    }
    for (int from = kAnyRank; from < size_; ++from) {
      fail_requests(requests_, from, now);
    }
  }

  void fail_requests(
      std::list<Request>& requests,
      int other_rank,
      steady_clock::time_point now) {
    requests.remove_if([&](Request& request) {
      if (request.from != other_rank ||
          !cannot_complete(other_rank, request.deadline, now)) {
        return false;
      }
      finish(request.done, failure("recv", "from", other_rank), other_rank);
      return true;
    });
  }

  // A rank counts as exited only at the second check that does not find it, so
  // that its last bytes in the ring buffer are read before.
  void check_presence() {
    for (int other_rank = 0; other_rank < size_; ++other_rank) {
      const bool present =
          other_rank == rank_ || memory_->is_present(other_rank);
      absences_[other_rank] = present ? 0 : absences_[other_rank] + 1;
    }
  }

  bool has_exited(int other_rank) const {
    return other_rank != kAnyRank && absences_[other_rank] > 1;
  }

  bool cannot_complete(
      int other_rank,
      steady_clock::time_point deadline,
      steady_clock::time_point now) const {
    return has_exited(other_rank) || now >= deadline ||
           (limits_.aborted != nullptr && limits_.aborted->load());
  }

  std::exception_ptr failure(
      const char* operation, const char* direction, int other_rank) const {
    const std::string name =
        other_rank == kAnyRank ? "any rank" : str_cat("rank ", other_rank);
    return std::make_exception_ptr(DistributedError(
        str_cat(
            operation,
            " on rank ",
            rank_,
            " ",
            direction,
            " ",
            name,
            ": ",
            has_exited(other_rank)
                ? "the process exited or destroyed its process group"
                : str_cat(
                      "no matching call within ",
                      name_duration(limits_.timeout))),
        has_exited(other_rank)
            ? str_cat("the root cause is in the log of ", name)
            : str_cat(
                  "check that ",
                  other_rank == kAnyRank ? "another rank" : name,
                  " makes the matching call")));
  }

  void finish(Completion& done, std::exception_ptr error, int other_rank) {
    finished_.push_back({std::move(done), std::move(error), other_rank});
  }

  struct Finished {
    Completion done;
    std::exception_ptr error;
    int other_rank;
  };

  std::shared_ptr<SharedMemory> memory_;
  std::byte* base_;
  const int rank_;
  const int size_;
  const WaitLimits limits_;

  std::mutex mutex_;  // Guards everything below.
  bool stopping_ = false;
  std::vector<std::deque<Outgoing>> outgoing_;
  std::vector<Incoming> incoming_;
  std::list<Request> requests_;
  std::list<Message> unclaimed_;
  std::vector<int> absences_;
  std::vector<Finished> finished_;
  steady_clock::time_point next_check_{};
  std::thread thread_;
};

std::size_t ShmMailboxes::bytes(int size) {
  return doorbells_bytes(size) +
         ring_stride(size) * static_cast<std::size_t>(size) * size;
}

ShmMailboxes::ShmMailboxes(
    std::shared_ptr<SharedMemory> memory,
    std::byte* base,
    int rank,
    int size,
    WaitLimits limits)
    : impl_(std::make_unique<Impl>(
          std::move(memory), base, rank, size, std::move(limits))) {
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
