// SPDX-License-Identifier: Apache-2.0
// Forward and backward of a function that a device starts as a whole.
//
//     RecordedCalls calls;
//     auto outputs = calls.run(key, inputs, parameters, body);
//     outputs[0].backward();  // As if `body` had been called.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "device/device_backend.h"

namespace accelerate {

/// NOTE [Recorded calls]
/// 1. The first call with a key runs as it is: it chooses kernels.
/// 2. The second gets inputs of its own. Forward is recorded, then the backward
///    of what it returned, into two graphs that share memory.
/// 3. From then on a call copies its inputs, starts the first graph, and copies
///    the results out: they are the caller's. Behind them is one node whose
///    backward starts the second graph. Its gradients become the parameters'
///    `.grad` where they lie, and are overwritten by the next backward; what
///    was summed up there until then is moved away first.
/// What forward leaves for backward lies where the next forward would
/// overwrite it: a call while an earlier one waits for its backward runs as it
/// is. So do calls inside another recording, and those that could not be
/// recorded; why is said once.
///
/// Thread safety: one thread at a time; backward may be another.
class ACCELERATE_API RecordedCalls {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Uses `inputs` and the parameters; what it does on the host happens only
  /// when it is called. Returns no undefined tensor.
  using Body = std::function<Tensors(const Tensors& inputs)>;

  /// Fewer where their gradients would take a quarter of the device's memory.
  static constexpr std::int64_t kMostRecordings = 32;

  RecordedCalls();
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;
  ~RecordedCalls();

  /// `key` says what `body` depends on besides `inputs`, which all lie on one
  /// device, as `parameters` do; undefined inputs stay undefined.
  Tensors run(
      const std::string& key,
      const Tensors& inputs,
      const Tensors& parameters,
      const Body& body);

  /// A call that could have been recorded is not brought here: says why, once
  /// for all reasons.
  void decline(const std::string& why) { say(why, "note"); }

  std::int64_t num_recordings() const { return recorded_; }
  std::int64_t num_replays() const { return replays_; }
  /// Why calls run as they are; empty while nothing speaks against recording.
  const std::string& why_not() const { return why_not_; }

  /// While one of these lives on a thread, its calls run as they are.
  class ACCELERATE_API Pause {
   public:
    Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();
  };

  struct Recording;
  struct Waiting;

 private:
  bool record(
      Recording& recording,
      const Tensors& inputs,
      const Tensors& parameters,
      const Body& body);
  Tensors replay(
      const std::shared_ptr<Recording>& recording,
      const Tensors& inputs,
      const Tensors& parameters);
  void forget_if_moved(const Tensors& parameters);
  void say(const std::string& why, const char* how = "warning");

  std::map<std::string, std::shared_ptr<Recording>> recordings_;
  std::vector<const void*> places_;   // of the parameters
  DeviceGraph* first_ = nullptr;      // Its memory is shared by all.
  std::shared_ptr<Recording> keeps_;  // The one that `first_` belongs to.
  std::unique_ptr<Waiting> waiting_;
  std::int64_t recorded_ = 0;
  std::int64_t replays_ = 0;
  std::string why_not_;
};

}  // namespace accelerate
