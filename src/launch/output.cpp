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
#include "base/str_cat.h"
#include "base/text.h"
#include "base/thread_without_signals.h"
#include "launch/screen.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxKeptBytes = std::size_t{1} << 16;
constexpr std::size_t kTailLines = 20;
constexpr std::size_t kTailWidth = 500;

// Keeps the last lines of a stream, in bounded memory.
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
        // Text after a carriage return overwrites the line, as on a terminal.
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
  // Skips all but the last lines of a large chunk.
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
  std::string partial;      // The current line, when several ranks may print.
  bool has_return = false;  // Whether `partial` has a carriage return.
  bool shows_progress = false;
};

bool same_file(int a, int b) {
  struct stat first{};
  struct stat second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino &&
         first.st_rdev == second.st_rdev;
}

// Returns the error code, or 0. A full disk must not stop the training.
int write_log(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    bytes.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
  return 0;
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
    thread_ = start_thread_without_signals([this] { run(); });
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
      new_streams_.push_back(make_stream(rank, false, std::move(out)));
      new_streams_.push_back(make_stream(rank, true, std::move(err)));
      tails_[{rank, false}] = Tail();
      tails_[{rank, true}] = Tail();
    }
    wake();
  }

  void announce(std::string text) {
    {
      const std::scoped_lock lock(mutex_);
      announcements_.push_back(std::move(text));
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
    // A blocked terminal must not delay the end of a job.
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

  void append_to_log(std::int64_t rank, const std::string& text) const {
    if (const UniqueFd log = open_log(rank, true)) {
      write_log(log.get(), text);
    }
  }

  std::string lost() const {
    const std::scoped_lock lock(mutex_);
    return lost_;
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
    const std::uint64_t count = 1;
    (void)!::write(wake_.get(), &count, sizeof(count));
  }

  Stream make_stream(std::int64_t rank, bool is_err, UniqueFd fd) {
    Stream stream;
    stream.rank = rank;
    stream.is_err = is_err;
    ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
    stream.fd = std::move(fd);
    stream.log = open_log(rank, is_err);
    return stream;
  }

  // Returns no descriptor if the stream has no log file.
  UniqueFd open_log(std::int64_t rank, bool is_err) const {
    const bool wanted = is_err ? options_.log_err : options_.log_out;
    if (options_.log_folder.empty() || !wanted) {
      return {};
    }
    const auto path =
        options_.log_folder /
        str_cat("rank_", rank, is_err ? ".stderr.log" : ".stdout.log");
    UniqueFd log(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!log) {
      throw_errno("write", path, errno);
    }
    return log;
  }

  // Reports only the first loss, because every line may be lost.
  void report_loss(const std::string& target, int error) {
    {
      const std::scoped_lock lock(mutex_);
      if (error == 0 || !lost_.empty()) {
        return;
      }
      lost_ = str_cat("cannot write to ", target, ": ", errno_text(error));
    }
    screen(true).line(str_cat("warning: ", lost_, "; the run continues"));
  }

  void report_losses() {
    report_loss("stdout", out_.error());
    report_loss("stderr", err_.error());
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
      // Reads the streams before it prints announcements, so that the output of
      // a rank comes before the message that the rank died.
      read_streams(entries);
      add_new_streams();
      answer_flush();
      report_losses();
      if (handle_requests()) {
        return;
      }
    }
  }

  void add_new_streams() {
    const std::scoped_lock lock(mutex_);
    for (Stream& stream : new_streams_) {
      streams_.push_back(std::move(stream));
    }
    new_streams_.clear();
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

  // Returns true when the thread must stop.
  bool handle_requests() {
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
      forward_window_size();
    }
    for (const std::string& text : announcements) {
      screen(true).line(text);
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

  // Returns false if the stream has ended or its output cannot be written.
  bool read_once(Stream& stream) {
    char buffer[65536];
    const ssize_t got = ::read(stream.fd.get(), buffer, sizeof(buffer));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    if (got <= 0) {
      return false;
    }
    handle_bytes({buffer, static_cast<std::size_t>(got)}, stream);
    // If the launcher's output has no reader, closes the pipe, so that the
    // worker gets SIGPIPE, as it would without the launcher.
    return !screen(stream.is_err).is_broken();
  }

  void handle_bytes(std::string_view bytes, Stream& stream) {
    if (stream.log) {
      report_loss("the log files", write_log(stream.log.get(), bytes));
    }
    {
      const std::scoped_lock lock(mutex_);
      tails_[{stream.rank, stream.is_err}].add(bytes);
    }
    if (!several_ranks_ && (!only_rank_ || *only_rank_ == stream.rank)) {
      only_rank_ = stream.rank;
      print_single_rank(bytes, stream);
      return;
    }
    if (!several_ranks_) {
      several_ranks_ = true;
      clear_partial_lines();
    }
    print_lines(bytes, stream);
  }

  // Called while only one rank has printed. If another rank may still print, a
  // file gets only whole lines. A terminal gets all output immediately, because
  // an unfinished line can be cleared.
  void print_single_rank(std::string_view bytes, Stream& stream) {
    Screen& target = screen(stream.is_err);
    if (options_.num_ranks == 1) {
      target.write_raw(bytes);
      return;
    }
    const auto newline = bytes.rfind('\n');
    const bool ends_line = newline != std::string_view::npos;
    const std::string_view rest = ends_line ? bytes.substr(newline + 1) : bytes;
    if (target.is_terminal()) {
      target.write_raw(bytes);
    } else if (ends_line) {
      target.write_raw(stream.partial);
      target.write_raw(bytes.substr(0, newline + 1));
    }
    if (ends_line) {
      clear_partial(stream);
    }
    append_partial(rest, stream);
    if (stream.partial.size() > kMaxOutputLine) {
      if (!target.is_terminal()) {
        target.write_raw(stream.partial);
      }
      clear_partial(stream);
    }
  }

  // Called when a second rank prints. Clears the unfinished line of the first
  // rank; once complete, that line is printed again with its prefix.
  void clear_partial_lines() {
    for (Stream& stream : streams_) {
      Screen& target = screen(stream.is_err);
      if (!stream.partial.empty() && target.is_terminal()) {
        target.clear_line();
        show_progress(stream);
      }
    }
  }

  // Scans only the new bytes: a line may arrive in hundreds of chunks.
  void print_lines(std::string_view bytes, Stream& stream) {
    while (true) {
      const auto end = bytes.find('\n');
      if (end == std::string_view::npos) {
        break;
      }
      append_partial(bytes.substr(0, end), stream);
      print_line(stream.partial, stream);
      clear_partial(stream);
      bytes.remove_prefix(end + 1);
    }
    append_partial(bytes, stream);
    if (stream.partial.size() > kMaxOutputLine) {
      print_line(stream.partial, stream);
      clear_partial(stream);
    }
    show_progress(stream);
  }

  static void append_partial(std::string_view bytes, Stream& stream) {
    stream.has_return |= bytes.find('\r') != std::string_view::npos;
    stream.partial += bytes;
  }

  // Also frees the memory of a long line.
  static void clear_partial(Stream& stream) {
    stream.has_return = false;
    if (stream.partial.capacity() > kMaxKeptBytes) {
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
    // A terminal would show only the last state of a progress bar.
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

  // An unfinished line with a carriage return is a progress bar.
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
    // Drops the earlier states, which are overwritten.
    stream.partial = "\r" + state;
  }

  void close(Stream& stream) {
    if (several_ranks_ && !stream.partial.empty()) {
      print_line(stream.partial, stream);
    } else if (!screen(stream.is_err).is_terminal()) {
      screen(stream.is_err).write_raw(stream.partial);
    }
    clear_partial(stream);
  }

  void finish_streams() {
    for (Stream& stream : streams_) {
      // The workers have exited, so the pipe contains all of their output. The
      // limit protects against a leftover process that never stops writing.
      for (int reads = 0; reads < 64; ++reads) {
        pollfd entry{stream.fd.get(), POLLIN, 0};
        if (::poll(&entry, 1, 0) <= 0 || !read_once(stream)) {
          break;
        }
      }
      close(stream);
    }
    streams_.clear();
    report_losses();
    const std::scoped_lock lock(mutex_);
    draining_ = false;
    drained_.notify_all();
  }

  void forward_window_size() {
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

  // Used only by the output thread.
  std::list<Stream> streams_;
  std::optional<std::int64_t> only_rank_;
  bool several_ranks_ = false;

  // Guarded by `mutex_`.
  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<Stream> new_streams_;
  std::vector<std::string> announcements_;
  std::map<std::pair<std::int64_t, bool>, Tail> tails_;
  std::string lost_;
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
  impl_->announce(printable_lines(text));
}

void Output::announce_report(const std::string& text) {
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
void Output::append_to_log(std::int64_t rank, const std::string& text) const {
  impl_->append_to_log(rank, text);
}
std::string Output::lost() const {
  return impl_->lost();
}
void Output::resize() {
  impl_->resize();
}

}  // namespace accelerate
