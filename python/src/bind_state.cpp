// SPDX-License-Identifier: Apache-2.0
// Process groups and the state of a process.
#include "accelerate/group.h"
#include "accelerate/logging.h"
#include "accelerate/partial_state.h"
#include "bind.h"
#include "blocking_call.h"
#include "json.h"
#include "options.h"

namespace accelerate::python {
namespace {

PartialState make_state(const std::optional<bool>& cpu, const py::dict& init) {
  PartialStateOptions options;
  options.cpu = cpu;
  options.init_process_group = init_process_group_kwargs(init);
  const BlockingCall blocking_call;
  return PartialState(options);
}

void bind_group(py::module_& module) {
  using Tensors = Group::Tensors;
  py::class_<Group>(module, "Group")
      .def_property_readonly("rank", &Group::rank)
      .def_property_readonly("size", &Group::size)
      .def_property_readonly("backend_name", &Group::backend_name)
      .def("barrier", &Group::barrier, py::call_guard<BlockingCall>())
      .def("gather", &Group::gather, py::call_guard<BlockingCall>())
      .def(
          "reduce",
          [](const Group& group,
             const Tensors& tensors,
             const std::string& reduction,
             double scale) {
            return group.reduce(tensors, parse_reduction(reduction), scale);
          },
          py::call_guard<BlockingCall>())
      .def("broadcast", &Group::broadcast, py::call_guard<BlockingCall>())
      .def(
          "pad_across_processes",
          [](const Group& group,
             const Tensors& tensors,
             std::int64_t dim,
             double pad_index,
             bool pad_first) {
            return group.pad_across_processes(
                tensors,
                {.dim = dim, .pad_index = pad_index, .pad_first = pad_first});
          },
          py::call_guard<BlockingCall>())
      .def(
          "gather_object",
          [](const Group& group, const std::vector<py::bytes>& objects) {
            auto list = as_json(objects);
            {
              const BlockingCall blocking_call;
              list = group.gather_object(list);
            }
            return as_bytes(list);
          })
      .def(
          "broadcast_object_list",
          [](const Group& group,
             const std::vector<py::bytes>& objects,
             int from) {
            auto list = as_json(objects);
            {
              const BlockingCall blocking_call;
              group.broadcast_object_list(list, from);
            }
            return as_bytes(list);
          });
}

void bind_order(py::module_& module) {
  py::class_<ProcessOrder>(module, "ProcessOrder")
      .def("finish", &ProcessOrder::finish, py::call_guard<BlockingCall>());
}

}  // namespace

void bind_state(py::module_& module) {
  bind_group(module);
  bind_order(module);
  const auto first = [](bool local) {
    return [local](const PartialState& state) {
      return std::unique_ptr<ProcessOrder>(
          local ? new ProcessOrder(state.local_main_process_first())
                : new ProcessOrder(state.main_process_first()));
    };
  };
  py::class_<PartialState>(module, "PartialState")
      .def(py::init(&make_state))
      .def_static("reset", &PartialState::reset)
      .def_static("is_initialized", &PartialState::is_initialized)
      .def_property_readonly("process_index", &PartialState::process_index)
      .def_property_readonly("num_processes", &PartialState::num_processes)
      .def_property_readonly(
          "local_process_index", &PartialState::local_process_index)
      .def_property_readonly(
          "local_num_processes", &PartialState::local_num_processes)
      .def_property_readonly("node_index", &PartialState::node_index)
      .def_property_readonly("num_nodes", &PartialState::num_nodes)
      .def_property_readonly("device", &PartialState::device)
      .def_property_readonly(
          "distributed_type",
          [](const PartialState& state) {
            return std::string(name_of(state.distributed_type()));
          })
      .def_property_readonly("backend", &PartialState::backend)
      .def_property_readonly("launcher", &PartialState::launcher)
      .def_property_readonly("fork_launched", &PartialState::fork_launched)
      .def_property_readonly("debug", &PartialState::debug)
      .def_property_readonly(
          "group", [](const PartialState& state) { return state.group(); })
      .def(
          "wait_for_everyone",
          &PartialState::wait_for_everyone,
          py::call_guard<BlockingCall>())
      .def("main_process_first", first(false), py::call_guard<BlockingCall>())
      .def(
          "local_main_process_first",
          first(true),
          py::call_guard<BlockingCall>())
      .def(
          "destroy_process_group",
          &PartialState::destroy_process_group,
          py::call_guard<BlockingCall>());
}

}  // namespace accelerate::python
