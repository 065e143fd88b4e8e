// SPDX-License-Identifier: Apache-2.0
// Bindings of the C++ objects that mirror Python's training objects.
#include "accelerate/accelerator.h"
#include "bind.h"
#include "blocking_call.h"
#include "json.h"
#include "python_loader.h"
#include "python_module.h"
#include "python_optimizer.h"

namespace accelerate::python {
namespace {

void bind_loader(py::module_& module) {
  using Cursor = PythonLoader::Cursor;
  py::class_<Cursor>(module, "Cursor")
      .def("has_batch", &Cursor::has_batch)
      .def("advance", &Cursor::advance, py::call_guard<BlockingCall>())
      .def("batch", &Cursor::batch)
      .def("close", &Cursor::close, py::call_guard<BlockingCall>());
  py::class_<PythonLoader>(module, "Loader")
      .def(
          py::init([](std::optional<std::int64_t> dataset_size,
                      std::int64_t batch_size,
                      bool shuffle,
                      bool drop_last,
                      std::optional<std::uint64_t> seed,
                      std::optional<std::int64_t> sampler_size,
                      std::optional<std::int64_t> batch_sampler_size,
                      const py::object& reader) {
            return std::make_unique<PythonLoader>(
                LoaderOptions{
                    dataset_size,
                    batch_size,
                    shuffle,
                    drop_last,
                    seed,
                    sampler_size,
                    batch_sampler_size},
                reader.is_none() ? std::nullopt
                                 : std::optional<Adapter>(Adapter(reader)));
          }),
          py::kw_only(),
          py::arg("dataset_size"),
          py::arg("batch_size"),
          py::arg("shuffle"),
          py::arg("drop_last"),
          py::arg("seed"),
          py::arg("sampler_size"),
          py::arg("batch_sampler_size"),
          py::arg("reader"))
      .def("size", &PythonLoader::size)
      .def("total_batch_size", &PythonLoader::total_batch_size)
      .def("rows", &PythonLoader::rows)
      .def("valid_rows", &PythonLoader::valid_rows)
      .def("end_of_dataloader", &PythonLoader::end_of_dataloader)
      .def("epoch", &PythonLoader::epoch)
      .def("set_epoch", &PythonLoader::set_epoch)
      .def("state_dict", &PythonLoader::state_dict)
      .def("load_state_dict", &PythonLoader::load_state_dict)
      .def("even_batches", &PythonLoader::even_batches)
      .def("set_order", &PythonLoader::set_order)
      .def("set_batch_order", &PythonLoader::set_batch_order)
      .def("begin", &PythonLoader::begin, py::call_guard<BlockingCall>())
      .def(
          "read_ahead",
          &PythonLoader::read_ahead,
          py::call_guard<BlockingCall>())
      .def("without_first", &PythonLoader::without_first);
}

}  // namespace

void bind_objects(py::module_& module) {
  py::class_<PythonModule, std::shared_ptr<PythonModule>>(module, "Module")
      .def(py::init<const NamedTensorList&, const NamedTensorList&>());
  py::class_<PythonOptimizer, std::shared_ptr<PythonOptimizer>>(
      module, "Optimizer")
      .def(py::init<py::object, const std::vector<std::vector<at::Tensor>>&>());
  py::class_<PythonScheduler, std::shared_ptr<PythonScheduler>>(
      module, "Scheduler")
      .def(py::init<py::object, std::shared_ptr<PythonOptimizer>>())
      .def("step", py::overload_cast<>(&LRScheduler::step))
      .def("state_dict", &PythonScheduler::state_dict);
  bind_loader(module);
  // `abandon` is called when the region's block raised an exception. The other
  // ranks detect that this process exits, so the region must not start a
  // collective. `Region` skips the collective during a C++ exception, but
  // cannot detect a Python exception.
  py::class_<Region>(module, "Region")
      .def("end", &Region::end, py::call_guard<BlockingCall>())
      .def("abandon", [](Region& region) {
        struct Abandoned {};
        try {
          const Region ended_region(std::move(region));
          throw Abandoned();
        } catch (const Abandoned&) {
        }
      });
}

}  // namespace accelerate::python
