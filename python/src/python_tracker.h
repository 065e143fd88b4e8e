// SPDX-License-Identifier: Apache-2.0
// The C++ counterpart of a tracker that is written in Python.
#pragma once

#include <string>

#include "accelerate/log_values.h"
#include "accelerate/tracker.h"
#include "python_optimizer.h"
#include "torch.h"

namespace accelerate::python {

/// Calls an adapter, an object from `accelerate_cpp.tracking` that refers to
/// the Python tracker. Each call acquires the GIL.
class PythonTracker : public GeneralTracker {
 public:
  explicit PythonTracker(const py::object& adapter);

  std::string name() const override { return name_; }
  bool requires_logging_directory() const override { return needs_folder_; }
  bool main_process_only() const override { return main_process_only_; }
  void start(const TrackerSetup& setup) override;
  void store_init_configuration(const Json& config) override;
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void log_table(const TrackedTable& table) override;
  void finish() override;

 private:
  Adapter adapter_;
  std::string name_;
  bool needs_folder_;
  bool main_process_only_;
};

/// Converts a dict of numbers, texts, tensors and further dicts. Throws
/// `ArgumentError` for any other value.
LogValues log_values(const py::dict& values);

}  // namespace accelerate::python
