// SPDX-License-Identifier: Apache-2.0
// One process reads, each gets its own batch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "accelerate/group.h"
#include "data/step.h"

namespace accelerate {

/// Hands out the steps that rank 0 reads.
///
/// A step is:
///
/// 1. rank 0 broadcasts a header: whether there is a step, whether batches
///    have another form than in the last one, and each rank's rows;
/// 2. if the form changed, it broadcasts the form of every rank's batch: its
///    containers, and the types and shapes of its tensors;
/// 3. it sends each rank the tensors of that rank's batch, and nothing else.
///
/// An error while reading takes the place of a step: rank 0 rethrows it, the
/// others throw `PeerError` with its text.
class Dispatch : public StepReader {
 public:
  /// `reader` reads for all ranks of the group; only rank 0 has one.
  Dispatch(
      Group group,
      std::shared_ptr<detail::BatchSource> source,
      std::unique_ptr<StepReader> reader);

  /// A step with one portion, this rank's.
  std::optional<Step> next() override;
  /// How often the form of the batches was sent.
  std::int64_t forms_sent() const { return forms_sent_; }

 private:
  struct Header;

  std::optional<Step> exchange();
  std::optional<Step> read_step(Header& header);
  void share_forms(Header& header, const std::optional<Step>& step);
  [[noreturn]] void fail();
  void send(const Step& step) const;
  void receive(Portion& portion) const;
  bool one_is_ahead(const Header& header) const;

  Group group_;
  std::shared_ptr<detail::BatchSource> source_;
  std::unique_ptr<StepReader> reader_;
  std::exception_ptr error_;
  Json forms_;
  std::optional<Step> kept_;
  std::int64_t forms_sent_ = 0;
  bool ended_ = false;
};

}  // namespace accelerate
