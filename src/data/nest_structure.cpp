// SPDX-License-Identifier: Apache-2.0
#include "accelerate/detail/nest_structure.h"

#include <ATen/ops/empty.h>

namespace accelerate::detail {

Json describe_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return {};
  }
  return Json::array(
      {static_cast<std::int64_t>(tensor.scalar_type()),
       Json(tensor.sizes().vec())});
}

at::Tensor empty_tensor(const Json& description) {
  if (description.is_null()) {
    return {};
  }
  std::vector<std::int64_t> sizes;
  for (const Json& size : description.at(std::size_t{1}).as_array()) {
    sizes.push_back(size.as_integer());
  }
  const auto type =
      static_cast<c10::ScalarType>(description.at(std::size_t{0}).as_integer());
  return at::empty(sizes, at::TensorOptions(type));
}

}  // namespace accelerate::detail
