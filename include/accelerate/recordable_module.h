// SPDX-License-Identifier: Apache-2.0
// A second base class, next to `torch::nn::Module`, for user-defined modules
// that capture their own steps as CUDA graphs.
//
//     struct Net : torch::nn::Module, accelerate::RecordableModule {
//       void set_record_policy(const accelerate::RecordPolicy& policy) override
//       {
//         captures_steps = policy.enabled;
//       }
//       bool captures_steps = false;
//     };
//
// `prepare` detects the base class and calls `set_record_policy`. The models in
// `transformers` are such modules.
#pragma once

#include <string>

#include "accelerate/export.h"

namespace accelerate {

/// Whether steps may be captured as CUDA graphs.
struct RecordPolicy {
  bool enabled = false;
  /// Why steps are not captured. If not empty, a note with this reason is
  /// printed once.
  std::string disabled_reason = {};
};

/// A module that captures its steps if its policy allows it. The module must
/// not capture steps before `set_record_policy` is called.
class ACCELERATE_API RecordableModule {
 public:
  RecordableModule() = default;
  RecordableModule(const RecordableModule&) = default;
  RecordableModule& operator=(const RecordableModule&) = default;
  virtual ~RecordableModule();

  /// Sets the policy. The Accelerator calls this once in `prepare`, and again
  /// with an empty policy when the Accelerator is destroyed. The module must
  /// then drop everything that it has captured.
  virtual void set_record_policy(const RecordPolicy& policy) = 0;
};

}  // namespace accelerate
