// SPDX-License-Identifier: Apache-2.0
#include "python_tracker.h"

#include <stdexcept>
#include <utility>

#include "accelerate/error.h"
#include "json.h"

namespace accelerate::python {
namespace {

/// Runs `body` with the GIL. A Python exception becomes a C++ exception that a
/// thread without the GIL can handle.
template <typename Body>
void with_gil(const Body& body) {
  const py::gil_scoped_acquire gil;
  try {
    body();
  } catch (const py::error_already_set& error) {
    throw std::runtime_error(error.what());
  }
}

py::object python_value(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> py::object {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, Histogram>) {
          py::dict histogram;
          histogram["min"] = content.min;
          histogram["max"] = content.max;
          histogram["limits"] = content.limits;
          histogram["counts"] = content.counts;
          return histogram;
        } else {
          return py::cast(content);
        }
      },
      value);
}

LogValue log_value(py::handle value, const std::string& key) {
  if (py::isinstance<py::bool_>(value)) {
    return value.cast<bool>();
  }
  if (py::isinstance<py::int_>(value) || py::isinstance<py::float_>(value)) {
    const Json number = to_json(value, key);
    return number.is_integer() ? LogValue(number.as_integer())
                               : LogValue(number.as_double());
  }
  if (py::isinstance<py::str>(value)) {
    return value.cast<std::string>();
  }
  if (py::isinstance<py::dict>(value)) {
    return log_values(py::reinterpret_borrow<py::dict>(value));
  }
  if (py::detail::make_caster<at::Tensor> tensor; tensor.load(value, true)) {
    return py::detail::cast_op<at::Tensor&>(tensor);
  }
  // Numbers of NumPy.
  if (py::hasattr(value, "item") && py::hasattr(value, "ndim") &&
      value.attr("ndim").cast<int>() == 0) {
    return log_value(value.attr("item")(), key);
  }
  throw ArgumentError(
      "`log` got a value of type `" +
          std::string(py::str(py::type::of(value).attr("__name__"))) +
          "` as `" + key + "`",
      "log numbers, strings, tensors with one element, and dicts of these");
}

}  // namespace

PythonTracker::PythonTracker(const py::object& adapter)
    : adapter_(adapter),
      name_(adapter.attr("name").cast<std::string>()),
      needs_folder_(adapter.attr("requires_logging_directory").cast<bool>()),
      main_process_only_(adapter.attr("main_process_only").cast<bool>()) {
}

// Called on the program's own thread, so a Python exception may propagate.
void PythonTracker::start(const TrackerSetup& setup) {
  const py::gil_scoped_acquire gil;
  adapter_.object().attr("start")(
      setup.project, setup.logging_dir.string(), from_json(setup.kwargs));
}

void PythonTracker::store_init_configuration(const Json& config) {
  with_gil([&] {
    adapter_.object().attr("store_init_configuration")(from_json(config));
  });
}

void PythonTracker::log(const TrackedValues& values) {
  with_gil([&] {
    py::dict entries;
    for (const TrackedEntry& entry : values.entries) {
      entries[py::str(entry.key)] = python_value(entry.value);
    }
    const Json* const kwargs = values.kwargs.find(name_);
    adapter_.object().attr("log")(
        entries, values.step, from_json(kwargs != nullptr ? *kwargs : Json()));
  });
}

void PythonTracker::log_images(const TrackedImages& images) {
  with_gil([&] {
    py::dict entries;
    for (const TrackedImageEntry& entry : images.entries) {
      py::list files;
      for (const EncodedImage& image : entry.images) {
        files.append(py::bytes(image.png));
      }
      entries[py::str(entry.key)] = files;
    }
    adapter_.object().attr("log_images")(entries, images.step);
  });
}

void PythonTracker::log_table(const TrackedTable& table) {
  with_gil([&] {
    py::list rows;
    for (const auto& row : table.rows) {
      rows.append(from_json(Json(row)));
    }
    adapter_.object().attr("log_table")(
        table.key, table.columns, rows, table.step);
  });
}

void PythonTracker::finish() {
  with_gil([&] { adapter_.object().attr("finish")(); });
}

LogValues log_values(const py::dict& values) {
  LogValues result;
  for (const auto& [key, value] : values) {
    const auto name = py::str(key).cast<std::string>();
    result.push_back({name, log_value(value, name)});
  }
  return result;
}

}  // namespace accelerate::python
