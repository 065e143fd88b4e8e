// SPDX-License-Identifier: Apache-2.0
// Converts Python values to `Json` and back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "accelerate/json.h"
#include "torch.h"

namespace accelerate::python {

/// Converts None, bool, int, float, str, list, tuple and dict with str keys.
/// Throws `ArgumentError` for any other value; the error gives the path to that
/// value. The path starts with `where`.
Json to_json(py::handle value, const std::string& where);
py::object from_json(const Json& value);

/// `as_json` stores pickled Python objects as JSON strings, so that they can be
/// sent to other processes. `as_bytes` converts the strings back.
std::vector<Json> as_json(const std::vector<py::bytes>& objects);
std::vector<py::bytes> as_bytes(const std::vector<Json>& objects);

using Tensors = std::map<std::string, at::Tensor>;

}  // namespace accelerate::python

namespace pybind11::detail {

/// Converts between `Json` and plain Python values in bindings.
template <>
struct type_caster<accelerate::Json> {
 public:
  PYBIND11_TYPE_CASTER(accelerate::Json, const_name("object"));
  bool load(handle source, bool) {
    value = accelerate::python::to_json(source, "value");
    return true;
  }
  static handle cast(
      const accelerate::Json& source, return_value_policy, handle) {
    return accelerate::python::from_json(source).release();
  }
};

}  // namespace pybind11::detail
