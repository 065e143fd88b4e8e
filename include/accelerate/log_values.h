// SPDX-License-Identifier: Apache-2.0
// The values that `Accelerator::log` takes.
//
//     accelerator.log({{"loss", loss}, {"lr", 3e-5}}, {.step = step});
//     accelerator.log({{"eval", {{"accuracy", 0.9}, {"f1", 0.8}}}});
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"
#include "accelerate/tracker.h"

namespace accelerate {

struct LogEntry;
using LogValues = std::vector<LogEntry>;

/// A number, a string, a tensor with one element, a histogram, or several named
/// values.
class ACCELERATE_API LogValue {
 public:
  using Variant = std::variant<
      bool,
      std::int64_t,
      double,
      std::string,
      std::shared_ptr<const Histogram>,
      std::shared_ptr<const Tensor>,
      std::shared_ptr<const LogValues>>;

  LogValue(bool value) : value_(value) {}  // NOLINT
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  LogValue(Integer value)  // NOLINT
      : value_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point Real>
  LogValue(Real value) : value_(static_cast<double>(value)) {}      // NOLINT
  LogValue(std::string value) : value_(std::move(value)) {}         // NOLINT
  LogValue(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  LogValue(const char* value) : value_(std::string(value)) {}       // NOLINT
  LogValue(Histogram value);                                        // NOLINT
  /// Does not copy the tensor and does not wait for a device. A tensor on the
  /// CPU is read by `log`; a tensor on a device is copied in stream order.
  LogValue(const Tensor& value);                     // NOLINT
  LogValue(std::initializer_list<LogEntry> values);  // NOLINT
  LogValue(LogValues values);                        // NOLINT
  template <typename Value>
  LogValue(const std::map<std::string, Value>& values);  // NOLINT

  const Variant& value() const { return value_; }

 private:
  Variant value_;
};

struct LogEntry {
  std::string key;
  LogValue value;
};

template <typename Value>
LogValue::LogValue(const std::map<std::string, Value>& values) : value_(false) {
  LogValues entries;
  for (const auto& [key, value] : values) {
    entries.push_back({key, LogValue(value)});
  }
  *this = LogValue(std::move(entries));
}

struct LogValuesOptions {
  /// The step of the values. Default: the step after the last step that was
  /// logged.
  std::optional<std::int64_t> step = std::nullopt;
  /// Arguments for your own trackers, by the tracker's name.
  Json log_kwargs = {};
};

struct LogImagesOptions {
  std::optional<std::int64_t> step = std::nullopt;
  /// The order of the dimensions: `NCHW` or `NHWC`. A tensor with three
  /// dimensions is a single image, without `N`.
  std::string dataformats = "NCHW";
};

/// Returns the histogram of all elements of a tensor, in `bins` intervals of
/// equal width. Elements that are not finite are left out. Waits for the
/// device.
ACCELERATE_API Histogram
histogram_of(const Tensor& tensor, std::int64_t bins = 64);

}  // namespace accelerate
