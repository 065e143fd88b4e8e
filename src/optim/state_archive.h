// SPDX-License-Identifier: Apache-2.0
// One description of what an optimizer keeps, for saving and for loading.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <ATen/core/Tensor.h>

namespace accelerate {

/// Is told each field of an optimizer's state or options, by name; writes the
/// value down or replaces it.
class StateArchive {
 public:
  virtual ~StateArchive() = default;

  /// A tensor with the shape of its parameter; one that is undefined is left
  /// out, and may be missing only if it is `optional_tensor`.
  virtual void tensor(const std::string& name, at::Tensor& value) = 0;
  virtual void optional_tensor(const std::string& name, at::Tensor& value) = 0;
  /// A tensor of any shape, which may be undefined.
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
