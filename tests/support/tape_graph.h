// SPDX-License-Identifier: Apache-2.0
// A recording on the CPU, for tests of what is built on a device's.
#pragma once

#include <memory>
#include <vector>

#include "device/device_backend.h"

namespace accelerate {

/// Writes down every operation that `capture` runs, with its arguments, and
/// `replay` runs them again into the same results: what a device does with
/// kernels and addresses.
///
/// Unlike a device it also runs them while it records.
class TapeGraph : public DeviceGraph {
 public:
  TapeGraph();
  ~TapeGraph() override;

  void capture(const std::function<void()>& body) override;
  void replay() override;

  /// Whether this thread is inside a `capture`.
  static bool is_recording();
  /// Graphs that live now.
  static int count();

  struct Tape;

 private:
  std::unique_ptr<Tape> tape_;
};

}  // namespace accelerate
