// SPDX-License-Identifier: Apache-2.0
#include "accelerate/tqdm.h"

#include <iostream>

#include <dlfcn.h>
#include <unistd.h>

#include "accelerate/partial_state.h"
#include "base/notebook_launch.h"
#include "reporting/progress_line.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;

// On a terminal, ten redraws a second look continuous; a log file needs fewer.
constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::milliseconds kLogInterval{5000};

bool is_in_notebook() {
  return ::dlsym(RTLD_DEFAULT, kNotebookLaunchSymbol) != nullptr;
}

bool is_shown_here() {
  return !PartialState::is_initialized() ||
         PartialState().is_local_main_process();
}

}  // namespace

class tqdm::Impl {
 public:
  Impl(std::optional<std::int64_t> total, TqdmOptions options)
      : options_(std::move(options)),
        stream_(options_.stream != nullptr ? options_.stream : &std::cerr),
        notebook_(options_.stream == nullptr && is_in_notebook()),
        // The output of a notebook cell can redraw a line, like a terminal.
        terminal_(options_.terminal.value_or(
            options_.stream == nullptr &&
            (notebook_ || ::isatty(STDERR_FILENO) != 0))),
        interval_(options_.interval.value_or(
            terminal_ ? kTerminalInterval : kLogInterval)),
        start_(now()),
        last_draw_(start_) {
    progress_.total = total;
    progress_.description = options_.description;
    progress_.unit = options_.unit;
    if (terminal_) {
      draw();
    }
  }

  void update(std::int64_t n) {
    progress_.n += n;
    draw_if_due();
  }

  void set_description(const std::string& description) {
    progress_.description = description;
    draw_if_due();
  }

  void set_postfix(const std::string& postfix) {
    progress_.postfix = postfix;
    draw_if_due();
  }

  void close() {
    if (closed_) {
      return;
    }
    closed_ = true;
    if (options_.leave) {
      draw();
      if (terminal_) {
        *stream_ << "\n" << std::flush;
      }
    } else if (terminal_) {
      *stream_ << drawn("") << std::flush;
    }
  }

  std::int64_t n() const { return progress_.n; }

 private:
  Clock::time_point now() const {
    return options_.clock ? options_.clock() : Clock::now();
  }

  void draw_if_due() {
    if (!closed_ && now() - last_draw_ >= interval_) {
      draw();
    }
  }

  // Writes the whole line at once, so that output from other threads cannot
  // split it.
  void draw() {
    last_draw_ = now();
    progress_.elapsed = last_draw_ - start_;
    const std::string line = progress_line(progress_);
    *stream_ << (terminal_ ? drawn(line) : line + "\n") << std::flush;
  }

  std::string drawn(const std::string& line) const {
    return notebook_ ? kNotebookBarBegin + line + kNotebookBarEnd
                     : "\r\x1b[K" + line;
  }

  TqdmOptions options_;
  std::ostream* stream_;
  bool notebook_;
  bool terminal_;
  std::chrono::milliseconds interval_;
  Clock::time_point start_;
  Clock::time_point last_draw_;
  Progress progress_;
  bool closed_ = false;
};

// A hidden bar only counts.
tqdm::tqdm(std::optional<std::int64_t> total, TqdmOptions options) {
  if (options.show.has_value() ? *options.show : is_shown_here()) {
    impl_ = std::make_unique<Impl>(total, std::move(options));
  }
}

tqdm::tqdm(tqdm&& other) noexcept = default;
tqdm& tqdm::operator=(tqdm&& other) noexcept {
  if (this != &other) {
    close();
    hidden_n_ = other.hidden_n_;
    impl_ = std::move(other.impl_);
  }
  return *this;
}
tqdm::~tqdm() {
  close();
}

void tqdm::update(std::int64_t n) {
  if (impl_ != nullptr) {
    impl_->update(n);
  } else {
    hidden_n_ += n;
  }
}

void tqdm::set_description(const std::string& description) {
  if (impl_ != nullptr) {
    impl_->set_description(description);
  }
}

void tqdm::set_postfix(const std::string& postfix) {
  if (impl_ != nullptr) {
    impl_->set_postfix(postfix);
  }
}

void tqdm::close() {
  if (impl_ != nullptr) {
    impl_->close();
  }
}

std::int64_t tqdm::n() const {
  return impl_ != nullptr ? impl_->n() : hidden_n_;
}
bool tqdm::is_shown() const {
  return impl_ != nullptr;
}

}  // namespace accelerate
