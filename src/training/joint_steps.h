// SPDX-License-Identifier: Apache-2.0
// Steps of ranks that run out of batches at different times.
#pragma once

#include <cstdint>

#include "state/mesh.h"

namespace accelerate {

/// Coordinates the steps of the ranks in `join_uneven_inputs`. Every rank
/// announces each step, including a rank that has no more batches and only
/// takes part in the steps of other ranks.
class JointSteps {
 public:
  /// `mesh` must outlive this object.
  explicit JointSteps(const Mesh& mesh) : mesh_(mesh) {}

  /// Starts announcing steps, if there is more than one rank.
  void begin();
  void end() { active_ = false; }
  bool active() const { return active_; }

  /// Announces a step of this rank. Collective.
  void announce();
  /// Announces that this rank has no more batches, and returns whether any rank
  /// is still training. Collective.
  bool wait_for_step();

  /// Returns the rank whose buffers are broadcast after a step. The returned
  /// rank is still training.
  int buffer_source() const { return buffer_source_; }
  /// Returns a rank that took the most steps since `begin`. Collective.
  int longest_rank() const;

 private:
  bool exchange(bool trains);

  const Mesh& mesh_;
  bool active_ = false;
  std::int64_t steps_ = 0;
  int buffer_source_ = 0;
};

}  // namespace accelerate
