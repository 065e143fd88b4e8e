// SPDX-License-Identifier: Apache-2.0
#include "accelerate/autocast.h"

#include <ATen/autocast_mode.h>

namespace accelerate {
namespace {

bool changes_something(Precision precision, const AutocastKwargs& options) {
  return precision != Precision::no || !options.enabled;
}

c10::ScalarType dtype_of(Precision precision) {
  return precision == Precision::fp16 ? c10::ScalarType::Half
                                      : c10::ScalarType::BFloat16;
}

}  // namespace

AutocastGuard::AutocastGuard(
    c10::DeviceType device, Precision precision, const AutocastKwargs& options)
    : active_(changes_something(precision, options)), device_(device) {
  if (!active_) {
    return;
  }
  was_enabled_ = at::autocast::is_autocast_enabled(device);
  was_cache_enabled_ = at::autocast::is_autocast_cache_enabled();
  old_dtype_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, options.enabled);
  if (options.enabled) {
    at::autocast::set_autocast_dtype(device, dtype_of(precision));
  }
  at::autocast::set_autocast_cache_enabled(
      options.cache_enabled.value_or(was_cache_enabled_));
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!active_) {
    return;
  }
  const bool outermost = at::autocast::decrement_nesting() == 0;
  const bool switched_cache_on =
      at::autocast::is_autocast_cache_enabled() && !was_cache_enabled_;
  if (outermost || switched_cache_on) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_cache_enabled(was_cache_enabled_);
  at::autocast::set_autocast_dtype(device_, old_dtype_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

}  // namespace accelerate
