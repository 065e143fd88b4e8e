// SPDX-License-Identifier: Apache-2.0
// Writes and reads the state of an optimizer.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "accelerate/optimizer_state.h"
#include "optim/staged_state.h"
#include "optim/state_archive.h"

namespace accelerate {

/// Writes the state of one parameter, or the options of one parameter group:
/// tensors into `state`, other fields into `scalars`.
class StateWriter : public StateArchive {
 public:
  StateWriter(std::string parameter, OptimizerState& state, JsonObject& scalars)
      : parameter_(std::move(parameter)), state_(state), scalars_(scalars) {}

  void tensor(const std::string& name, at::Tensor& value) override;
  void optional_tensor(const std::string& name, at::Tensor& value) override;
  void free_tensor(const std::string& name, at::Tensor& value) override;
  void tensors(
      const std::string& name, std::deque<at::Tensor>& values) override;
  void integer(const std::string& name, std::int64_t& value) override;
  void real(const std::string& name, double& value) override;
  void pair(const std::string& name, double& first, double& second) override;
  void boolean(const std::string& name, bool& value) override;
  void text(const std::string& name, std::string& value) override;

 private:
  std::string parameter_;
  OptimizerState& state_;
  JsonObject& scalars_;
};

/// The problems found while reading, and the names of the tensors that were
/// read.
struct ReadReport {
  std::vector<std::string> problems;
  std::set<std::string> used;
};

/// Reads the state of one parameter, or the options of one parameter group.
/// Problems are added to `report`, so that one error message can list all
/// problems.
class StateReader : public StateArchive {
 public:
  /// `like` is the parameter whose state is read: state tensors get its type
  /// and device. When options are read, `like` is undefined, because options
  /// contain no tensors.
  StateReader(
      std::string parameter,
      at::Tensor like,
      const OptimizerState& state,
      const Json& scalars,
      ReadReport& report,
      Adopt adopt = Adopt::no)
      : parameter_(std::move(parameter)),
        like_(std::move(like)),
        state_(state),
        scalars_(scalars),
        report_(report),
        adopt_(adopt) {}

  void tensor(const std::string& name, at::Tensor& value) override;
  void optional_tensor(const std::string& name, at::Tensor& value) override;
  void free_tensor(const std::string& name, at::Tensor& value) override;
  void tensors(
      const std::string& name, std::deque<at::Tensor>& values) override;
  void integer(const std::string& name, std::int64_t& value) override;
  void real(const std::string& name, double& value) override;
  void pair(const std::string& name, double& first, double& second) override;
  void boolean(const std::string& name, bool& value) override;
  void text(const std::string& name, std::string& value) override;

 private:
  const at::Tensor* find_tensor(const std::string& name);
  bool can_adopt(const at::Tensor& saved) const;
  template <typename Read>
  void read_scalar(const std::string& name, Read read);

  std::string parameter_;
  at::Tensor like_;
  const OptimizerState& state_;
  const Json& scalars_;
  ReadReport& report_;
  Adopt adopt_;
};

}  // namespace accelerate
