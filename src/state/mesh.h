// SPDX-License-Identifier: Apache-2.0
// Named axes over the ranks of a run.
//
//     const Mesh mesh(state.group());
//     shard.process_index = mesh.data_rank();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/group.h"

namespace accelerate {

/// Arranges the ranks of a run along named axes. Ranks that differ only along a
/// data axis read different batches; the data loader, the scheduler, the
/// metrics and the checkpoints use the data rank and the data size of the mesh
/// instead of the process index and the number of processes.
///
/// A rank can drive several devices, which share each of its batches; the
/// samples of a step are then divided among more devices than there are
/// processes.
///
/// Currently, every mesh has one axis, `replicate`, which spans all ranks.
class Mesh {
 public:
  struct Axis {
    std::string name;
    int size = 1;
    int rank = 0;  ///< of this process along the axis
  };

  /// Creates a mesh of one rank.
  Mesh() : Mesh(Group()) {}
  /// Creates a mesh whose only axis, `replicate`, spans all ranks of `world`.
  /// Each rank drives `devices_per_rank` devices.
  explicit Mesh(Group world, std::int64_t devices_per_rank = 1);

  const std::vector<Axis>& axes() const { return axes_; }
  /// Returns the axis with this name. Throws `ArgumentError` with the names of
  /// the axes if there is none.
  const Axis& axis(const std::string& name) const;

  /// Returns this process's rank among the ranks that read different data.
  int data_rank() const;
  /// Returns the number of ranks that read different data.
  int data_size() const;
  /// Returns the number of devices that share a rank's batch.
  std::int64_t devices_per_rank() const { return devices_per_rank_; }
  /// Returns the number of devices that get different samples in a step.
  std::int64_t data_parallel_size() const;
  /// Returns the ranks that read different data, in the order of their data
  /// ranks.
  const Group& data_group() const { return world_; }

 private:
  Group world_;
  std::int64_t devices_per_rank_;
  std::vector<Axis> axes_;
};

}  // namespace accelerate
