// SPDX-License-Identifier: Apache-2.0
// A visitor over the fields of an optimizer's state, for saving and loading.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// Visits the fields of an optimizer's state or options by name. A writer saves
/// the value of each field. A reader replaces the value with the saved value.
class StateArchive {
 public:
  virtual ~StateArchive() = default;

  /// Visits a tensor with the same shape as its parameter. A writer does not
  /// save an undefined tensor. For a reader, a missing tensor is an error.
  virtual void tensor(const std::string& name, at::Tensor& value) = 0;
  /// Like `tensor`, but if the tensor is missing, a reader leaves the value
  /// undefined.
  virtual void optional_tensor(const std::string& name, at::Tensor& value) = 0;
  /// Like `optional_tensor`, but the tensor may have any shape.
  virtual void free_tensor(const std::string& name, at::Tensor& value) = 0;
  virtual void tensors(
      const std::string& name, std::deque<at::Tensor>& values) = 0;
  virtual void integer(const std::string& name, std::int64_t& value) = 0;
  virtual void real(const std::string& name, double& value) = 0;
  virtual void pair(const std::string& name, double& first, double& second) = 0;
  virtual void boolean(const std::string& name, bool& value) = 0;
  virtual void text(const std::string& name, std::string& value) = 0;
};

}  // namespace accelerate
