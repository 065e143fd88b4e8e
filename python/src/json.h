// SPDX-License-Identifier: Apache-2.0
// Python values as our `Json`, and back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "accelerate/json.h"
#include "torch.h"

namespace accelerate::python {

/// None, bool, int, float, str, list, tuple and dict with str keys. Throws
/// `ArgumentError` that names the place of anything else, below `where`.
Json to_json(py::handle value, const std::string& where);
py::object from_json(const Json& value);

/// Python objects travel as bytes of Python's own format.
std::vector<Json> as_json(const std::vector<py::bytes>& objects);
std::vector<py::bytes> as_bytes(const std::vector<Json>& objects);

using Tensors = std::map<std::string, at::Tensor>;

}  // namespace accelerate::python

namespace pybind11::detail {

/// What bindings return as `Json` arrives in Python as plain values.
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
