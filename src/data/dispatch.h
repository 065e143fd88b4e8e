// SPDX-License-Identifier: Apache-2.0
// Rank 0 reads the data and sends each rank its batch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "accelerate/group.h"
#include "comm/group_call.h"
#include "data/step.h"

namespace accelerate {

/// Reads batches on rank 0 and sends each rank its part.
///
/// For each step:
///
/// 1. Rank 0 broadcasts a header: whether there is another step, whether the
///    structure of the batches differs from the previous step, and the number
///    of rows for each rank.
/// 2. If the structure changed, rank 0 broadcasts the structure of every rank's
///    batch: its containers, and the types and shapes of its tensors.
/// 3. Rank 0 scatters the tensors of the batches.
///
/// If reading fails, rank 0 rethrows the error, and the other ranks throw
/// `RankError` with the error message.
class Dispatch : public StepReader {
 public:
  /// `reader` reads the batches of all ranks in `group`. It must be null on
  /// every rank except rank 0.
  Dispatch(
      Group group,
      std::shared_ptr<detail::BatchSource> source,
      std::unique_ptr<StepReader> reader);

  /// Returns the next step with only this rank's portion. Collective.
  std::optional<Step> next() override;
  /// Returns the number of times that rank 0 has broadcast the structure of the
  /// batches.
  std::int64_t structures_sent() const { return structures_sent_; }

 private:
  struct Header;

  std::optional<Step> exchange();
  std::optional<Step> read_step(Header& header);
  void broadcast_structures(Header& header, const std::optional<Step>& step);
  /// Rethrows the error on rank 0, and throws `RankError` on the other ranks.
  void throw_read_error();
  std::vector<at::Tensor> tensors_of(const Portion& portion) const;
  void send(const Step& step, std::int64_t bytes);
  void receive(Portion& portion, std::int64_t bytes);
  bool a_rank_is_ahead(const Header& header) const;

  Group group_;
  GroupCall call_;
  std::shared_ptr<detail::BatchSource> source_;
  std::unique_ptr<StepReader> reader_;
  std::exception_ptr error_;
  Json structures_;
  std::optional<Step> next_step_;
  std::int64_t structures_sent_ = 0;
  bool ended_ = false;
};

}  // namespace accelerate
