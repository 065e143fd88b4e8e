// SPDX-License-Identifier: Apache-2.0
#include "launch/output.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/quiet_thread.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/screen.h"

namespace accelerate {
namespace {

constexpr std::size_t kMostKept = std::size_t{1} << 16;
constexpr std::size_t kTailLines = 20;
constexpr std::size_t kTailWidth = 500;

// Remembers the last lines of a stream, in bounded memory.
class Tail {
 public:
  void add(std::string_view bytes) {
    bytes = skip_to_last_lines(bytes);
    for (const char c : bytes) {
      if (c == '\n') {
        end_line();
      } else if (c == '\r') {
        returned_ = true;
      } else {
        // What follows a carriage return overwrites the line, as on a screen.
        if (returned_) {
          current_.clear();
          returned_ = false;
        }
        if (current_.size() < kTailWidth) {
          current_ += c;
        }
      }
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> result(lines_.begin(), lines_.end());
    if (!trim(current_).empty()) {
      result.push_back(current_);
    }
    return result;
  }

 private:
  // Most of a large chunk is gone before anybody could ask for it.
  std::string_view skip_to_last_lines(std::string_view bytes) {
    std::size_t end = bytes.size();
    for (std::size_t seen = 0; seen <= kTailLines; ++seen) {
      end = end == 0 ? std::string_view::npos : bytes.rfind('\n', end - 1);
      if (end == std::string_view::npos) {
        return bytes;
      }
    }
    lines_.clear();
    current_.clear();
    return bytes.substr(end + 1);
  }

  void end_line() {
    if (!trim(current_).empty()) {
      lines_.push_back(current_);
      if (lines_.size() > kTailLines) {
        lines_.pop_front();
      }
    }
    current_.clear();
    returned_ = false;
  }

  std::deque<std::string> lines_;
  std::string current_;
  bool returned_ = false;
};

struct Stream {
  std::int64_t rank = 0;
  bool is_err = false;
  UniqueFd fd;
  UniqueFd log;
  std::string partial;      // Of the current line, when several ranks print.
  bool has_return = false;  // In `partial`, which may be long.
  bool shows_progress = false;
};

bool same_file(int a, int b) {
  struct stat first{};
  struct stat second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino &&
         first.st_rdev == second.st_rdev;
}

void write_log(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return;  // A full disk must not stop the training.
    }
    bytes.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

}  // namespace

class Output::Impl {
 public:
  explicit Impl(OutputOptions options)
      : options_(std::move(options)),
        out_(options_.out, ::isatty(options_.out) == 1),
        err_(options_.err, ::isatty(options_.err) == 1),
        shared_(same_file(options_.out, options_.err)) {
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!options_.log_folder.empty()) {
      std::error_code error;
      std::filesystem::create_directories(options_.log_folder, error);
      if (error) {
        throw_errno("create", options_.log_folder, error.value());
      }
    }
    thread_ = start_quiet_thread([this] { run(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
  }

  void add(std::int64_t rank, UniqueFd out, UniqueFd err) {
    {
      const std::scoped_lock lock(mutex_);
      arriving_.push_back(make_stream(rank, false, std::move(out)));
      arriving_.push_back(make_stream(rank, true, std::move(err)));
      tails_[{rank, false}] = Tail();
      tails_[{rank, true}] = Tail();
    }
    wake();
  }

  void announce(const std::string& text) {
    {
      const std::scoped_lock lock(mutex_);
      announcements_.push_back(text);
    }
    wake();
  }

  void drain() {
    std::unique_lock lock(mutex_);
    draining_ = true;
    wake();
    drained_.wait(lock, [this] { return !draining_; });
  }

  void flush() {
    std::unique_lock lock(mutex_);
    const std::uint64_t wanted = ++flush_wanted_;
    wake();
    // A terminal that stands still must not hold up the end of a job.
    drained_.wait_for(lock, std::chrono::milliseconds(500), [&] {
      return flush_done_ >= wanted;
    });
  }

  RankTail tail(std::int64_t rank) const {
    const std::scoped_lock lock(mutex_);
    const auto get = [&](bool is_err) {
      const auto found = tails_.find({rank, is_err});
      return found == tails_.end() ? std::vector<std::string>()
                                   : found->second.lines();
    };
    return {get(true), get(false)};
  }

  void resize() {
    {
      const std::scoped_lock lock(mutex_);
      resizing_ = true;
    }
    wake();
  }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
  }

  Stream make_stream(std::int64_t rank, bool is_err, UniqueFd fd) {
    Stream stream;
    stream.rank = rank;
    stream.is_err = is_err;
    ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
    stream.fd = std::move(fd);
    const bool wanted = is_err ? options_.log_err : options_.log_out;
    if (!options_.log_folder.empty() && wanted) {
      const auto path =
          options_.log_folder /
          str_cat("rank_", rank, is_err ? ".stderr.log" : ".stdout.log");
      stream.log.reset(::open(
          path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      if (!stream.log) {
        throw_errno("write", path, errno);
      }
    }
    return stream;
  }

  Screen& screen(bool is_err) { return is_err && !shared_ ? err_ : out_; }

  void run() {
    while (true) {
      std::vector<pollfd> entries = {{wake_.get(), POLLIN, 0}};
      for (const Stream& stream : streams_) {
        entries.push_back({stream.fd.get(), POLLIN, 0});
      }
      if (::poll(entries.data(), entries.size(), -1) < 0) {
        continue;
      }
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof(count));
      // Streams before announcements: what a rank printed before it died comes
      // before what we say about it.
      read_streams(entries);
      take_arrivals();
      answer_flush();
      if (take_orders()) {
        return;
      }
    }
  }

  void take_arrivals() {
    const std::scoped_lock lock(mutex_);
    for (Stream& stream : arriving_) {
      streams_.push_back(std::move(stream));
    }
    arriving_.clear();
  }

  void answer_flush() {
    std::uint64_t wanted = 0;
    {
      const std::scoped_lock lock(mutex_);
      wanted = flush_wanted_;
      if (flush_done_ == wanted) {
        return;
      }
    }
    for (Stream& stream : streams_) {
      pollfd entry{stream.fd.get(), POLLIN, 0};
      if (::poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN) != 0) {
        read_once(stream);
      }
    }
    const std::scoped_lock lock(mutex_);
    flush_done_ = wanted;
    drained_.notify_all();
  }

  // Returns true when it is time to go.
  bool take_orders() {
    std::vector<std::string> announcements;
    bool drain = false;
    bool resize = false;
    bool stop = false;
    {
      const std::scoped_lock lock(mutex_);
      announcements.swap(announcements_);
      drain = draining_;
      stop = stopping_;
      resize = resizing_;
      resizing_ = false;
    }
    if (resize) {
      pass_on_size();
    }
    for (const std::string& text : announcements) {
      for (const std::string& line : split(text, '\n')) {
        screen(true).line(line);
      }
    }
    if (drain) {
      finish_streams();
    }
    return stop;
  }

  void read_streams(const std::vector<pollfd>& entries) {
    std::size_t index = 1;
    for (auto stream = streams_.begin(); stream != streams_.end();) {
      const bool ready = index < entries.size() && entries[index].revents != 0;
      ++index;
      if (ready && !read_once(*stream)) {
        close(*stream);
        stream = streams_.erase(stream);
      } else {
        ++stream;
      }
    }
  }

  // False: nothing will come any more.
  bool read_once(Stream& stream) {
    char buffer[65536];
    const ssize_t got = ::read(stream.fd.get(), buffer, sizeof(buffer));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    if (got <= 0) {
      return false;
    }
    take({buffer, static_cast<std::size_t>(got)}, stream);
    // With nobody behind us the worker learns it as it would without us.
    return !screen(stream.is_err).is_broken();
  }

  void take(std::string_view bytes, Stream& stream) {
    if (stream.log) {
      write_log(stream.log.get(), bytes);
    }
    {
      const std::scoped_lock lock(mutex_);
      tails_[{stream.rank, stream.is_err}].add(bytes);
    }
    if (!several_ && (!only_rank_ || *only_rank_ == stream.rank)) {
      only_rank_ = stream.rank;
      take_alone(bytes, stream);
      return;
    }
    if (!several_) {
      several_ = true;
      make_way();
    }
    take_lines(bytes, stream);
  }

  // While one rank prints. Where another may still begin, a file gets whole
  // lines only; a terminal gets everything, and can be corrected.
  void take_alone(std::string_view bytes, Stream& stream) {
    Screen& target = screen(stream.is_err);
    if (options_.num_ranks == 1) {
      target.pass(bytes);
      return;
    }
    const auto newline = bytes.rfind('\n');
    const bool ends_line = newline != std::string_view::npos;
    const std::string_view rest = ends_line ? bytes.substr(newline + 1) : bytes;
    if (target.is_terminal()) {
      target.pass(bytes);
    } else if (ends_line) {
      target.pass(stream.partial);
      target.pass(bytes.substr(0, newline + 1));
    }
    if (ends_line) {
      forget(stream);
    }
    hold(rest, stream);
    if (stream.partial.size() > kMaxOutputLine) {
      if (!target.is_terminal()) {
        target.pass(stream.partial);
      }
      forget(stream);
    }
  }

  // A second rank begins: takes back the unfinished line of the first, which
  // will come again as a line of its own.
  void make_way() {
    for (Stream& stream : streams_) {
      Screen& target = screen(stream.is_err);
      if (!stream.partial.empty() && target.is_terminal()) {
        target.clear_line();
        show_progress(stream);
      }
    }
  }

  // Only new bytes are looked at: a line may come in hundreds of pieces.
  void take_lines(std::string_view bytes, Stream& stream) {
    while (true) {
      const auto end = bytes.find('\n');
      if (end == std::string_view::npos) {
        break;
      }
      hold(bytes.substr(0, end), stream);
      print_line(stream.partial, stream);
      forget(stream);
      bytes.remove_prefix(end + 1);
    }
    hold(bytes, stream);
    if (stream.partial.size() > kMaxOutputLine) {
      print_line(stream.partial, stream);
      forget(stream);
    }
    show_progress(stream);
  }

  static void hold(std::string_view bytes, Stream& stream) {
    stream.has_return |= bytes.find('\r') != std::string_view::npos;
    stream.partial += bytes;
  }

  // What a long line took is given back.
  static void forget(Stream& stream) {
    stream.has_return = false;
    if (stream.partial.capacity() > kMostKept) {
      stream.partial = {};
    } else {
      stream.partial.clear();
    }
  }

  void print_line(std::string_view text, Stream& stream) {
    if (stream.shows_progress) {
      screen(stream.is_err).end_progress();
      stream.shows_progress = false;
    }
    // A bar's last state is what a screen would show of the line.
    if (stream.has_return) {
      text = last_state(text);
    }
    screen(stream.is_err).line(str_cat("[", stream.rank, "] ", text));
  }

  static std::string_view last_state(std::string_view text) {
    while (text.ends_with('\r')) {
      text.remove_suffix(1);
    }
    const auto at = text.rfind('\r');
    return at == std::string_view::npos ? text : text.substr(at + 1);
  }

  // A line with a carriage return and no end is a progress bar.
  void show_progress(Stream& stream) {
    if (!stream.has_return) {
      return;
    }
    const std::string state(last_state(stream.partial));
    if (state.empty()) {
      return;
    }
    if (screen(stream.is_err).is_terminal()) {
      screen(stream.is_err).progress(str_cat("[", stream.rank, "] ", state));
      stream.shows_progress = true;
    }
    // Earlier states are overwritten: nobody will see them.
    stream.partial = "\r" + state;
  }

  void close(Stream& stream) {
    if (several_ && !stream.partial.empty()) {
      print_line(stream.partial, stream);
    } else if (!screen(stream.is_err).is_terminal()) {
      screen(stream.is_err).pass(stream.partial);
    }
    forget(stream);
  }

  void finish_streams() {
    for (Stream& stream : streams_) {
      // The workers are gone: what is in the pipe now is all they wrote, and
      // the limit is for a process they left behind that writes for ever.
      for (int reads = 0; reads < 64; ++reads) {
        pollfd entry{stream.fd.get(), POLLIN, 0};
        if (::poll(&entry, 1, 0) <= 0 || !read_once(stream)) {
          break;
        }
      }
      close(stream);
    }
    streams_.clear();
    const std::scoped_lock lock(mutex_);
    draining_ = false;
    drained_.notify_all();
  }

  void pass_on_size() {
    for (const Stream& stream : streams_) {
      winsize size{};
      if (::ioctl(
              stream.is_err ? options_.err : options_.out, TIOCGWINSZ, &size) ==
          0) {
        ::ioctl(stream.fd.get(), TIOCSWINSZ, &size);
      }
    }
  }

  OutputOptions options_;
  Screen out_;
  Screen err_;
  bool shared_;
  UniqueFd wake_;

  // Only the thread touches these.
  std::list<Stream> streams_;
  std::optional<std::int64_t> only_rank_;
  bool several_ = false;

  // Guarded by the mutex.
  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<Stream> arriving_;
  std::vector<std::string> announcements_;
  std::map<std::pair<std::int64_t, bool>, Tail> tails_;
  std::uint64_t flush_wanted_ = 0;
  std::uint64_t flush_done_ = 0;
  bool draining_ = false;
  bool resizing_ = false;
  bool stopping_ = false;

  std::thread thread_;
};

Output::Output(OutputOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {
}
Output::~Output() = default;
void Output::add(std::int64_t rank, UniqueFd out, UniqueFd err) {
  impl_->add(rank, std::move(out), std::move(err));
}
void Output::announce(const std::string& text) {
  impl_->announce(text);
}
void Output::flush() {
  impl_->flush();
}
void Output::drain() {
  impl_->drain();
}
RankTail Output::tail(std::int64_t rank) const {
  return impl_->tail(rank);
}
void Output::resize() {
  impl_->resize();
}

}  // namespace accelerate
