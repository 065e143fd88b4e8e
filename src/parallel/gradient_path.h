// SPDX-License-Identifier: Apache-2.0
// What happens to gradients during a backward pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// What happens to the gradients of one backward pass.
enum class Sync {
  now,      ///< averaged across processes, then stored in `.grad`
  hidden,   ///< averaged across processes; `.grad` stays undefined
  later,    ///< accumulated internally; `.grad` stays undefined, so that
            ///< optimizer steps do nothing
  visible,  ///< accumulated locally in `.grad`, as in `no_sync`
};

/// Tensors of a model and their names: `names[i]` is the name of `tensors[i]`.
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

  /// Prepares for a backward pass. Gradients that are already in `.grad` become
  /// part of the accumulated sum.
  ///
  /// With `overlap`, the all-reduce overlaps with the backward pass. If several
  /// paths share a backward pass, only one path may use `overlap`, and its
  /// `end` must be called before the `end` of the other paths. Otherwise, ranks
  /// could start the all-reduces of the paths in different orders.
  virtual void begin(Sync sync, bool overlap = true) = 0;
  /// Finishes a backward pass that has returned. Collective with `Sync::now`
  /// and `Sync::hidden`.
  virtual void end() = 0;
  /// Cleans up after a backward pass that has thrown: drops all accumulated
  /// gradients and notifies the other ranks.
  virtual void fail() noexcept = 0;

  /// Joins a synchronizing backward pass of the other ranks with a zero
  /// contribution; for a rank that has run out of batches. Collective.
  virtual void begin_zero_contribution() = 0;
  virtual void end_zero_contribution() = 0;

  /// Returns the gradients accumulated since the last synchronizing backward
  /// pass, for checkpoints: one tensor per parameter, which is undefined if the
  /// parameter has no accumulated gradient.
  virtual std::vector<at::Tensor> sums() const = 0;
  virtual void set_sums(const std::vector<at::Tensor>& sums) = 0;
  /// Returns the parameters of this path.
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
