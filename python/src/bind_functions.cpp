// SPDX-License-Identifier: Apache-2.0
// Functions and classes that do not need an Accelerator.
#include <fstream>

#include "accelerate/logging.h"
#include "accelerate/memory.h"
#include "accelerate/partial_state.h"
#include "accelerate/permutation.h"
#include "accelerate/profiler.h"
#include "accelerate/saving.h"
#include "accelerate/seed.h"
#include "accelerate/sharding.h"
#include "bind.h"
#include "blocking_call.h"
#include "json.h"
#include "options.h"

namespace accelerate::python {
namespace {

py::tuple as_tuple(const BatchRange& range) {
  return py::make_tuple(range.begin, range.rows, range.valid_rows);
}

void bind_shards(py::module_& module) {
  py::class_<ShardRules>(module, "ShardRules")
      .def(
          py::init([](std::int64_t batch_size,
                      std::int64_t num_processes,
                      std::int64_t process_index,
                      bool split_batches,
                      bool even_batches,
                      bool drop_last,
                      bool dispatch_batches) {
            return ShardRules{
                batch_size,
                num_processes,
                process_index,
                split_batches,
                even_batches,
                drop_last,
                dispatch_batches};
          }),
          py::kw_only(),
          py::arg("batch_size") = 1,
          py::arg("num_processes") = 1,
          py::arg("process_index") = 0,
          py::arg("split_batches") = false,
          py::arg("even_batches") = true,
          py::arg("drop_last") = false,
          py::arg("dispatch_batches") = false);
  py::class_<BatchSamplerShard>(module, "BatchSamplerShard")
      .def(
          py::init<std::int64_t, const ShardRules&, std::int64_t>(),
          py::arg("samples"),
          py::arg("rules"),
          py::arg("start") = 0)
      .def("__len__", &BatchSamplerShard::size)
      .def(
          "at",
          [](const BatchSamplerShard& shard, std::int64_t k) {
            if (k < 0 || k >= shard.size()) {
              throw py::index_error(
                  "batch " + std::to_string(k) +
                  " is out of range: the number of batches is " +
                  std::to_string(shard.size()));
            }
            return as_tuple(shard.at(k));
          })
      .def("used_after", &BatchSamplerShard::used_after);
  py::class_<IterableDatasetShard>(module, "IterableDatasetShard")
      .def(py::init<const ShardRules&>(), py::arg("rules"))
      .def_property_readonly("window", &IterableDatasetShard::window)
      .def(
          "slice", [](const IterableDatasetShard& shard, std::int64_t samples) {
            return as_tuple(shard.slice(samples));
          });
  py::class_<Permutation>(module, "Permutation")
      .def(
          py::init(
              [](std::int64_t size, std::uint64_t seed, std::uint64_t epoch) {
                return Permutation(size, {seed, epoch});
              }),
          py::arg("size"),
          py::arg("seed") = 0,
          py::arg("epoch") = 0)
      .def("__len__", &Permutation::size)
      .def("__getitem__", [](const Permutation& order, std::int64_t position) {
        if (position < 0 || position >= order.size()) {
          throw py::index_error(
              "position " + std::to_string(position) +
              " is out of range: the size is " + std::to_string(order.size()));
        }
        return order(position);
      });
}

void bind_profiler(py::module_& module) {
  py::class_<Profiler>(module, "Profiler")
      .def(py::init([](const py::dict& options, std::int64_t process_index) {
        return std::make_unique<Profiler>(
            profile_kwargs(options), process_index);
      }))
      .def("step", &Profiler::step)
      .def_property_readonly("step_num", &Profiler::step_num)
      .def("stop", &Profiler::stop, py::call_guard<BlockingCall>())
      .def(
          "export_chrome_trace",
          &Profiler::export_chrome_trace,
          py::call_guard<BlockingCall>())
      .def("key_averages", [](const Profiler& profiler) {
        py::list result;
        for (const ProfileEntry& entry : profiler.key_averages()) {
          py::dict item;
          item["name"] = entry.name;
          item["calls"] = entry.calls;
          item["total_time_ns"] = entry.total_time.count();
          item["flops"] = entry.flops;
          result.append(item);
        }
        return result;
      });
}

}  // namespace

void bind_functions(py::module_& module) {
  bind_shards(module);
  bind_profiler(module);
  module.def(
      "split_range",
      [](std::int64_t length, std::int64_t process_index, std::int64_t count) {
        const SplitRange range = split_range(length, process_index, count);
        return py::make_tuple(range.begin, range.end);
      });
  module.def(
      "save_tensors",
      [](const Tensors& tensors, const std::string& path) {
        save(tensors, std::filesystem::path(path));
      },
      py::call_guard<py::gil_scoped_release>());
  module.def("save_value", [](const Json& value, const std::string& path) {
    save(value, std::filesystem::path(path));
  });
  module.def(
      "load_tensors",
      [](const std::string& path) { return load(path); },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "load_value", [](const std::string& path) { return load<Json>(path); });
  module.def(
      "set_seed",
      [](std::uint64_t seed,
         bool device_specific,
         bool deterministic,
         std::optional<std::int64_t> process_index) {
        set_seed(
            seed,
            {.device_specific = device_specific,
             .deterministic = deterministic,
             .process_index = process_index});
      });
  module.def("clear_device_cache", &clear_device_cache);
}

}  // namespace accelerate::python
