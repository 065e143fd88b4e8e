// SPDX-License-Identifier: Apache-2.0
// One progress bar for all processes on a machine.
//
//     accelerate::tqdm progress_bar(num_training_steps);
//     …
//     progress_bar.update(1);
//
//     for (auto& batch : accelerate::tqdm::over(train_dataloader)) { … }
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/export.h"

namespace accelerate {

/// How a bar looks and which process shows it.
struct TqdmOptions {
  /// Text printed in front of the bar.
  std::string description = {};
  /// The unit of the count, such as `it` in `2.00it/s`.
  std::string unit = "it";
  /// Whether this process shows the bar. Default: with a `PartialState`, only
  /// the local main process shows the bar; without one, every process does.
  std::optional<bool> show = std::nullopt;
  /// The stream to write to. Default: stderr.
  std::ostream* stream = nullptr;
  /// Whether the stream is a terminal, on which a line can be redrawn. Default:
  /// detected if the bar is on stderr, otherwise false.
  std::optional<bool> terminal = std::nullopt;
  /// Minimum time between two redraws. Default: 0.1 s on a terminal, 5 s
  /// elsewhere.
  std::optional<std::chrono::milliseconds> interval = std::nullopt;
  /// Whether the bar stays on the screen after it is closed.
  bool leave = true;
  /// The clock to use; for tests.
  std::function<std::chrono::steady_clock::time_point()> clock = {};
};

/// A progress bar with count, rate, elapsed time and remaining time.
///
/// Between redraws, `update` only counts and reads the clock; if the bar is
/// hidden, `update` only counts. The count may exceed the total. Thread safety:
/// use a bar from only one thread at a time.
class ACCELERATE_API tqdm {  // NOLINT(readability-identifier-naming)
 public:
  template <typename Range>
  class Over;

  /// Without a total, shows the count and the rate but no bar.
  explicit tqdm(
      std::optional<std::int64_t> total = std::nullopt,
      TqdmOptions options = {});
  tqdm(tqdm&&) noexcept;
  tqdm& operator=(tqdm&&) noexcept;
  /// Closes the bar.
  ~tqdm();

  /// Adds `n` to the count; `n` may be 0 or negative.
  void update(std::int64_t n = 1);
  void set_description(const std::string& description);
  /// Sets the text after the rate, such as `loss=0.12`.
  void set_postfix(const std::string& postfix);
  /// Draws the final state and ends the line. Later calls to `close` do
  /// nothing.
  void close();

  /// Returns the current count.
  std::int64_t n() const;
  bool is_shown() const;

  /// Wraps a range so that iterating over it advances a progress bar. The
  /// result can be iterated only once.
  template <typename Range>
  static Over<Range> over(Range&& range, TqdmOptions options = {}) {
    return Over<Range>(std::forward<Range>(range), std::move(options));
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // Null where the bar is hidden.
  std::int64_t hidden_n_ = 0;
};

/// The range that `tqdm::over` returns. Holds a reference to an lvalue range,
/// and owns an rvalue range.
template <typename Range>
class tqdm::Over {
 public:
  Over(Range&& range, TqdmOptions options)
      : range_(std::forward<Range>(range)),
        bar_(total_of(range_), std::move(options)) {}

  template <typename Inner>
  class Iterator {
   public:
    Iterator(Inner inner, tqdm* bar) : inner_(std::move(inner)), bar_(bar) {}
    decltype(auto) operator*() { return *inner_; }
    Iterator& operator++() {
      ++inner_;
      bar_->update(1);
      return *this;
    }
    template <typename End>
    friend bool operator!=(const Iterator& iterator, const End& end) {
      return iterator.inner_ != end;
    }

   private:
    Inner inner_;
    tqdm* bar_;
  };

  auto begin() { return Iterator(std::begin(range_), &bar_); }
  auto end() { return std::end(range_); }
  tqdm& bar() { return bar_; }

 private:
  static std::optional<std::int64_t> total_of(const auto& range) {
    if constexpr (requires { range.size(); }) {
      return static_cast<std::int64_t>(range.size());
    } else if constexpr (requires { std::size(range); }) {
      return static_cast<std::int64_t>(std::size(range));
    } else {
      return std::nullopt;
    }
  }

  Range range_;
  tqdm bar_;
};

}  // namespace accelerate
