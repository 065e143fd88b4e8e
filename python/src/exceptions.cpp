// SPDX-License-Identifier: Apache-2.0
#include "exceptions.h"

#include <exception>

#include <torch/csrc/Exceptions.h>

#include "accelerate/error.h"
#include "accelerate/interrupt.h"
#include "torch.h"

namespace accelerate::python {
namespace {

// Derived classes come before their base classes.
const char* class_of(const Error& error) {
  const auto is = [&]<typename T>(const T*) {
    return dynamic_cast<const T*>(&error) != nullptr;
  };
  return is(static_cast<ArgumentError*>(nullptr))      ? "ArgumentError"
         : is(static_cast<ConfigError*>(nullptr))      ? "ConfigError"
         : is(static_cast<StateError*>(nullptr))       ? "StateError"
         : is(static_cast<UnsupportedError*>(nullptr)) ? "UnsupportedError"
         : is(static_cast<IoError*>(nullptr))          ? "IoError"
         : is(static_cast<FormatError*>(nullptr))      ? "FormatError"
         : is(static_cast<MismatchError*>(nullptr))    ? "MismatchError"
         : is(static_cast<RankError*>(nullptr))        ? "RankError"
         : is(static_cast<DistributedError*>(nullptr)) ? "DistributedError"
         : is(static_cast<OutOfMemoryError*>(nullptr)) ? "OutOfMemoryError"
         : is(static_cast<InternalError*>(nullptr))    ? "InternalError"
                                                       : "Error";
}

void raise(const Error& error) {
  const py::object type =
      py::module_::import("accelerate_cpp.errors").attr(class_of(error));
  const py::object value = type(error.what(), error.hint());
  PyErr_SetObject(type.ptr(), value.ptr());
}

// The Python handler of the signal that interrupted the wait decides which
// exception is raised, usually `KeyboardInterrupt`.
void raise_interruption(const InterruptedError& error) {
  if (PyErr_CheckSignals() == 0) {
    raise(error);
  }
}

void translate(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InterruptedError& error) {
    raise_interruption(error);
  } catch (const Error& error) {
    raise(error);
  } catch (python_error& error) {
    error.restore();
  } catch (const c10::OutOfMemoryError& error) {
    const py::object type =
        py::module_::import("torch").attr("OutOfMemoryError");
    PyErr_SetString(type.ptr(), error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
}

}  // namespace

void register_exceptions() {
  py::register_exception_translator(&translate);
}

}  // namespace accelerate::python
