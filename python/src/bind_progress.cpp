// SPDX-License-Identifier: Apache-2.0
// The progress bar, which writes to a Python stream.
#include <ostream>

#include <pybind11/iostream.h>

#include "accelerate/tqdm.h"
#include "bind.h"

namespace accelerate::python {
namespace {

/// A progress bar that writes to a Python stream: in a notebook, to the cell.
class PythonBar {
 public:
  PythonBar(
      std::optional<std::int64_t> total,
      const std::string& description,
      const std::string& unit,
      std::optional<bool> show,
      const py::object& file,
      bool terminal,
      bool leave)
      : buffer_(file),
        stream_(&buffer_),
        bar_(
            total,
            {.description = description,
             .unit = unit,
             .show = show,
             .stream = &stream_,
             .terminal = terminal,
             .leave = leave}) {}

  void update(std::int64_t n) { bar_.update(n); }
  void set_description(const std::string& text) { bar_.set_description(text); }
  void set_postfix(const std::string& text) { bar_.set_postfix(text); }
  void close() { bar_.close(); }
  std::int64_t n() const { return bar_.n(); }
  bool is_shown() const { return bar_.is_shown(); }

 private:
  py::detail::pythonbuf buffer_;
  std::ostream stream_;
  tqdm bar_;
};

}  // namespace

void bind_progress(py::module_& module) {
  py::class_<PythonBar>(module, "Bar")
      .def(
          py::init<
              std::optional<std::int64_t>,
              const std::string&,
              const std::string&,
              std::optional<bool>,
              const py::object&,
              bool,
              bool>(),
          py::kw_only(),
          py::arg("total"),
          py::arg("description"),
          py::arg("unit"),
          py::arg("show"),
          py::arg("file"),
          py::arg("terminal"),
          py::arg("leave"))
      .def("update", &PythonBar::update)
      .def("set_description", &PythonBar::set_description)
      .def("set_postfix", &PythonBar::set_postfix)
      .def("close", &PythonBar::close)
      .def_property_readonly("n", &PythonBar::n)
      .def_property_readonly("is_shown", &PythonBar::is_shown);
}

}  // namespace accelerate::python
