// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include "accelerate/error.h"

namespace accelerate::python {
namespace {

Json integer(py::handle value, const std::string& where) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) {
    throw ArgumentError(
        where + " is " + std::string(py::str(value)) +
            ", which does not fit in 64 bits",
        "use integers below 2^63");
  }
  return {static_cast<std::int64_t>(number)};
}

Json object(const py::dict& items, const std::string& where) {
  Json result = Json::object();
  for (const auto& [key, value] : items) {
    if (!py::isinstance<py::str>(key)) {
      throw ArgumentError(
          where + " has the key " + std::string(py::repr(key)) +
              ", which is not a string",
          "use strings as keys");
    }
    const auto name = key.cast<std::string>();
    result[name] = to_json(value, where + "." + name);
  }
  return result;
}

Json list(py::handle items, const std::string& where) {
  Json result = Json::array();
  std::size_t index = 0;
  for (const py::handle item : items) {
    result.push_back(
        to_json(item, where + "[" + std::to_string(index++) + "]"));
  }
  return result;
}

}  // namespace

Json to_json(py::handle value, const std::string& where) {
  if (value.is_none()) {
    return {};
  }
  if (py::isinstance<py::bool_>(value)) {
    return {value.cast<bool>()};
  }
  if (py::isinstance<py::int_>(value)) {
    return integer(value, where);
  }
  if (py::isinstance<py::float_>(value)) {
    return {value.cast<double>()};
  }
  if (py::isinstance<py::str>(value)) {
    return {value.cast<std::string>()};
  }
  if (py::isinstance<py::dict>(value)) {
    return object(py::reinterpret_borrow<py::dict>(value), where);
  }
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    return list(value, where);
  }
  throw ArgumentError(
      where + " has type `" +
          std::string(py::str(py::type::handle_of(value).attr("__name__"))) +
          "`, which JSON cannot represent",
      "use only None, bool, int, float, str, and lists and dicts of these");
}

py::object from_json(const Json& value) {
  switch (value.type()) {
    case Json::Type::null:
      return py::none();
    case Json::Type::boolean:
      return py::bool_(value.as_bool());
    case Json::Type::integer:
      return py::int_(value.as_integer());
    case Json::Type::real:
      return py::float_(value.as_double());
    case Json::Type::string:
      return py::str(value.as_string());
    case Json::Type::array: {
      py::list items;
      for (const Json& item : value.as_array()) {
        items.append(from_json(item));
      }
      return items;
    }
    case Json::Type::object: {
      py::dict items;
      for (const auto& [key, item] : value.as_object()) {
        items[py::str(key)] = from_json(item);
      }
      return items;
    }
  }
  throw InternalError("unknown JSON type");
}

std::vector<Json> as_json(const std::vector<py::bytes>& objects) {
  std::vector<Json> result;
  for (const py::bytes& object : objects) {
    result.emplace_back(static_cast<std::string>(object));
  }
  return result;
}

std::vector<py::bytes> as_bytes(const std::vector<Json>& objects) {
  std::vector<py::bytes> result;
  for (const Json& object : objects) {
    result.emplace_back(object.as_string());
  }
  return result;
}

}  // namespace accelerate::python
