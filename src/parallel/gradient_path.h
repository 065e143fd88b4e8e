// SPDX-License-Identifier: Apache-2.0
// What happens to gradients around one backward.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// What becomes of the gradients of one backward.
enum class Sync {
  now,      ///< averaged over processes, then handed to `.grad`
  hidden,   ///< averaged over processes; `.grad` stays undefined
  later,    ///< kept aside and summed; `.grad` stays undefined, so that
            ///< optimizers have nothing to do
  visible,  ///< summed locally and handed to `.grad`, as in `no_sync`
};

/// Parameters with the names of the model, each tensor once.
struct NamedTensors {
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;

  std::size_t size() const { return tensors.size(); }
};

/// Owns the gradients of some parameters between `begin` and `end`.
///
///     path.begin(Sync::now);
///     try { loss.backward(); } catch (...) { path.fail(); throw; }
///     path.end();
class GradientPath {
 public:
  GradientPath() = default;
  GradientPath(const GradientPath&) = delete;
  GradientPath& operator=(const GradientPath&) = delete;
  virtual ~GradientPath() = default;

  /// A backward follows. What is in `.grad` counts as a part of the sum.
  ///
  /// Of the paths that share a backward only one may work `ahead` of `end`, and
  /// it ends first: which of two is ready first differs between ranks.
  virtual void begin(Sync sync, bool ahead = true) = 0;
  /// The engine has returned. Collective with `Sync::now`.
  virtual void end() = 0;
  /// The engine has thrown: forgets all sums and tells the other ranks.
  virtual void fail() noexcept = 0;

  /// The sums that are kept aside until a backward synchronises, by parameter;
  /// undefined where there is none. For checkpoints.
  virtual std::vector<at::Tensor> sums() const = 0;
  virtual void set_sums(const std::vector<at::Tensor>& sums) = 0;
  /// The parameters whose gradients these are.
  virtual const NamedTensors& parameters() const = 0;

  std::int64_t num_elements() const {
    std::int64_t sum = 0;
    for (const at::Tensor& tensor : parameters().tensors) {
      sum += tensor.numel();
    }
    return sum;
  }
};

}  // namespace accelerate
