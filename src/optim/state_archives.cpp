// SPDX-License-Identifier: Apache-2.0
#include "optim/state_archives.h"

#include <cstdint>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {

void StateWriter::tensor(const std::string& name, at::Tensor& value) {
  if (value.defined()) {
    state_.tensors[str_cat(parameter_, ".", name)] = value;
  }
}

void StateWriter::optional_tensor(const std::string& name, at::Tensor& value) {
  tensor(name, value);
}

void StateWriter::free_tensor(const std::string& name, at::Tensor& value) {
  tensor(name, value);
}

void StateWriter::tensors(
    const std::string& name, std::deque<at::Tensor>& values) {
  scalars_[str_cat(name, "_count")] = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor(str_cat(name, ".", i), values[i]);
  }
}

void StateWriter::integer(const std::string& name, std::int64_t& value) {
  scalars_[name] = value;
}

void StateWriter::real(const std::string& name, double& value) {
  scalars_[name] = value;
}

void StateWriter::pair(const std::string& name, double& first, double& second) {
  scalars_[name] = Json::array({first, second});
}

void StateWriter::boolean(const std::string& name, bool& value) {
  scalars_[name] = value;
}

void StateWriter::text(const std::string& name, std::string& value) {
  scalars_[name] = value;
}

const at::Tensor* StateReader::find_tensor(const std::string& name) {
  const std::string key = str_cat(parameter_, ".", name);
  const auto found = state_.tensors.find(key);
  if (found == state_.tensors.end()) {
    return nullptr;
  }
  report_.used.insert(key);
  return &found->second;
}

void StateReader::tensor(const std::string& name, at::Tensor& value) {
  optional_tensor(name, value);
  if (state_.tensors.count(str_cat(parameter_, ".", name)) == 0) {
    report_.problems.push_back(
        str_cat("tensor `", parameter_, ".", name, "` is missing"));
  }
}

void StateReader::optional_tensor(const std::string& name, at::Tensor& value) {
  const at::Tensor* saved = find_tensor(name);
  if (saved == nullptr) {
    value = at::Tensor();
    return;
  }
  if (saved->sizes() != like_.sizes()) {
    report_.problems.push_back(str_cat(
        "tensor `",
        parameter_,
        ".",
        name,
        "` has shape ",
        saved->sizes(),
        ", but the parameter has shape ",
        like_.sizes()));
    return;
  }
  if (can_adopt(*saved)) {
    value = *saved;
    return;
  }
  const at::NoGradGuard no_grad;
  value = at::empty_like(like_).copy_(*saved);
}

// The tensor must look like the result of `empty_like`, and its address must be
// aligned for vectorized loads.
bool StateReader::can_adopt(const at::Tensor& saved) const {
  constexpr std::uintptr_t kAlignment = 16;
  return adopt_ == Adopt::yes && saved.device() == like_.device() &&
         saved.scalar_type() == like_.scalar_type() &&
         saved.strides() == like_.strides() && like_.is_contiguous() &&
         reinterpret_cast<std::uintptr_t>(saved.const_data_ptr()) %
                 kAlignment ==
             0;
}

void StateReader::free_tensor(const std::string& name, at::Tensor& value) {
  const at::Tensor* saved = find_tensor(name);
  value = saved == nullptr
              ? at::Tensor()
              : saved->to(like_.options(), /*non_blocking=*/false, true);
}

void StateReader::tensors(
    const std::string& name, std::deque<at::Tensor>& values) {
  std::int64_t count = 0;
  integer(str_cat(name, "_count"), count);
  values.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string key = str_cat(name, ".", i);
    if (find_tensor(key) == nullptr) {
      report_.problems.push_back(
          str_cat("tensor `", parameter_, ".", key, "` is missing"));
      return;  // The wrong count may be arbitrarily large.
    }
    free_tensor(key, values.emplace_back());
  }
}

template <typename Read>
void StateReader::read_scalar(const std::string& name, Read read) {
  try {
    read(scalars_.at(name));
  } catch (const FormatError& error) {
    report_.problems.push_back(
        str_cat("`", name, "` of `", parameter_, "`: ", error.what()));
  }
}

void StateReader::integer(const std::string& name, std::int64_t& value) {
  read_scalar(name, [&](const Json& saved) { value = saved.as_integer(); });
}

void StateReader::real(const std::string& name, double& value) {
  read_scalar(name, [&](const Json& saved) { value = saved.as_double(); });
}

void StateReader::pair(const std::string& name, double& first, double& second) {
  read_scalar(name, [&](const Json& saved) {
    first = saved.at(0).as_double();
    second = saved.at(1).as_double();
  });
}

void StateReader::boolean(const std::string& name, bool& value) {
  read_scalar(name, [&](const Json& saved) { value = saved.as_bool(); });
}

void StateReader::text(const std::string& name, std::string& value) {
  read_scalar(name, [&](const Json& saved) { value = saved.as_string(); });
}

}  // namespace accelerate
