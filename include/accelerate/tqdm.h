// SPDX-License-Identifier: Apache-2.0
// One progress bar for all processes of a host.
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

/// How a bar looks and who shows it. A field left out is found out.
struct TqdmOptions {
  /// Written in front of the bar.
  std::string description = {};
  /// What is counted.
  std::string unit = "it";
  /// Whether this process shows the bar: the local main process of the
  /// `PartialState` if there is one, else always.
  std::optional<bool> show = std::nullopt;
  /// Where it is written; stderr.
  std::ostream* stream = nullptr;
  /// Whether that is a terminal, on which one line can be drawn again.
  std::optional<bool> terminal = std::nullopt;
  /// Draws at most this often: 0.1 s on a terminal, else 5 s.
  std::optional<std::chrono::milliseconds> interval = std::nullopt;
  /// Stays on the screen when it is closed.
  bool leave = true;
  /// What it is, for tests.
  std::function<std::chrono::steady_clock::time_point()> clock = {};
};

/// A progress bar: what is done, how fast, for how long, and how long still.
///
/// `update` costs a clock reading between two drawings, and nothing where the
/// bar is not shown. A count may pass its total. Thread safety: one thread at
/// a time.
class ACCELERATE_API tqdm {  // NOLINT(readability-identifier-naming)
 public:
  template <typename Range>
  class Over;

  /// Without a total there is a count and a rate, but no bar.
  explicit tqdm(
      std::optional<std::int64_t> total = std::nullopt,
      TqdmOptions options = {});
  tqdm(tqdm&&) noexcept;
  tqdm& operator=(tqdm&&) noexcept;
  /// Closes the bar.
  ~tqdm();

  /// Counts `n` more; n may be 0 or negative.
  void update(std::int64_t n = 1);
  void set_description(const std::string& description);
  /// Written after the rate, such as `loss=0.12`.
  void set_postfix(const std::string& postfix);
  /// Draws the last state and ends the line; later calls do nothing.
  void close();

  /// The count so far.
  std::int64_t n() const;
  bool is_shown() const;

  /// A range that counts as it is walked over, once.
  template <typename Range>
  static Over<Range> over(Range&& range, TqdmOptions options = {}) {
    return Over<Range>(std::forward<Range>(range), std::move(options));
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // None where the bar is not shown.
  std::int64_t hidden_n_ = 0;
};

/// See `tqdm::over`. Holds a reference to a range that has a name, and the
/// range itself otherwise.
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
