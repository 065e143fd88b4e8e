// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/local_sgd.h"
#include "bind.h"
#include "blocking_call.h"
#include "json.h"
#include "options.h"
#include "python_loader.h"
#include "python_module.h"
#include "python_optimizer.h"
#include "python_tracker.h"

namespace accelerate::python {
namespace {

using TensorList = std::vector<at::Tensor>;

/// An `Accelerator` and the objects that it must keep alive.
class Core {
 public:
  explicit Core(const AcceleratorOptions& options) : accelerator_(options) {}

  Accelerator* operator->() { return &accelerator_; }
  Accelerator& operator*() { return accelerator_; }

  /// The Accelerator refers to optimizers by address, so they must stay alive.
  void keep(std::shared_ptr<void> object) {
    kept_.push_back(std::move(object));
  }
  /// Keeps an object alive even after `free_memory`, which releases only
  /// prepared objects.
  void keep_registered(std::shared_ptr<void> object) {
    registered_.push_back(std::move(object));
  }
  void free_memory() {
    accelerator_.free_memory();
    kept_.clear();
  }

 private:
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::shared_ptr<void>> registered_;
  Accelerator accelerator_;
};

std::unique_ptr<Core> make_core(const py::dict& arguments) {
  const AcceleratorOptions options = accelerator_options(arguments);
  const BlockingCall blocking_call;
  return std::make_unique<Core>(options);
}

/// The values of a Python object that is part of the checkpoint.
class Registered {
 public:
  explicit Registered(const py::object& adapter) : adapter_(adapter) {}

  Json state_dict() const {
    const py::gil_scoped_acquire gil;
    return to_json(adapter_.object().attr("save_values")(), "state_dict()");
  }
  void load_state_dict(const Json& state) {
    const py::gil_scoped_acquire gil;
    adapter_.object().attr("load_values")(from_json(state));
  }

 protected:
  Adapter adapter_;
};

class RegisteredTensors {
 public:
  explicit RegisteredTensors(const py::object& adapter) : adapter_(adapter) {}

  Tensors state_dict() const { return adapter_.call<Tensors>("save_tensors"); }
  void load_state_dict(const Tensors& state) {
    adapter_.invoke("load_tensors", state);
  }

 private:
  Adapter adapter_;
};

template <typename Object>
void register_object(Core& core, const py::object& adapter) {
  auto object = std::make_shared<Object>(adapter);
  core->register_for_checkpointing(*object);
  core.keep_registered(std::move(object));
}

// The hook gets lists and dicts, changes them, and returns them.
Accelerator::StateHook state_hook(const py::object& function) {
  return [hook = Adapter(function)](
             std::vector<Tensors>& weights,
             const std::filesystem::path& folder) {
    weights =
        hook.call<std::vector<Tensors>>("__call__", weights, folder.string());
  };
}

py::dict report_of(const LoadStateReport& report) {
  py::dict result;
  result["path"] = report.path.string();
  result["step"] = report.step;
  result["epoch"] = report.epoch;
  result["world_size"] = report.world_size;
  result["left_out"] = report.left_out;
  result["passed_over"] = report.passed_over;
  result["derived"] = report.derived;
  return result;
}

py::dict load_state(
    Core& core,
    const std::optional<std::string>& folder,
    bool strict,
    bool required) {
  LoadStateReport report;
  {
    const BlockingCall blocking_call;
    const LoadStateOptions options{.strict = strict, .required = required};
    report =
        folder ? core->load_state(*folder, options) : core->load_state(options);
  }
  return report_of(report);
}

/// A Python function of tensors, captured in CUDA graphs.
using Graph = detail::GraphedCall<std::function<TensorList(const TensorList&)>>;

Graph make_graph(
    Core& core,
    const py::object& function,
    std::int64_t warmup_steps,
    std::int64_t max_graphs) {
  return core->graph(
      std::function<TensorList(const TensorList&)>(
          [body = Adapter(function)](const TensorList& tensors) {
            return body.call<TensorList>("__call__", tensors);
          }),
      {.warmup_steps = warmup_steps, .max_graphs = max_graphs});
}

using CoreClass = py::class_<Core>;

void bind_preparing(CoreClass& core) {
  core.def(
          "prepare_model",
          [](Core& self,
             const std::shared_ptr<PythonModule>& module,
             bool evaluation_mode) {
            self->prepare_model(
                *module,
                {.device_placement = false,
                 .evaluation_mode = evaluation_mode});
          },
          py::call_guard<BlockingCall>())
      .def(
          "convert_sync_batchnorm",
          [](Core& self, const std::shared_ptr<PythonModule>& module) {
            self->convert_sync_batchnorm(*module);
          },
          py::call_guard<BlockingCall>())
      .def(
          "prepare_parameters",
          [](Core& self,
             const std::vector<std::string>& names,
             const TensorList& tensors,
             const TensorList& buffers) {
            self->prepare_parameters(names, tensors, buffers);
          },
          py::call_guard<BlockingCall>())
      .def(
          "prepare_optimizer",
          [](Core& self, const std::shared_ptr<PythonOptimizer>& optimizer) {
            self.keep(optimizer);
            self->prepare_optimizer(*optimizer);
          },
          py::call_guard<BlockingCall>())
      .def(
          "prepare_data_loader",
          [](Core& self, PythonLoader& loader) {
            self->prepare_data_loader(loader, /*device_placement=*/false);
          },
          py::call_guard<BlockingCall>())
      .def(
          "prepare_scheduler",
          [](Core& self, PythonScheduler& scheduler) {
            self->prepare_scheduler(scheduler);
          },
          py::call_guard<BlockingCall>())
      .def("free_memory", &Core::free_memory, py::call_guard<BlockingCall>())
      .def(
          "end_training",
          [](Core& self) { self->end_training(); },
          py::call_guard<BlockingCall>());
}

void bind_training(CoreClass& core) {
  core.def(
          "backward",
          [](Core& self,
             const at::Tensor& loss,
             bool retain_graph,
             bool create_graph) {
            self->backward(
                loss,
                {.retain_graph = retain_graph, .create_graph = create_graph});
          },
          py::call_guard<BlockingCall>())
      .def(
          "accumulate",
          [](Core& self, std::optional<double> weight) {
            return weight ? self->accumulate(*weight) : self->accumulate();
          })
      .def(
          "no_sync",
          [](Core& self, const std::shared_ptr<PythonModule>& module) {
            return module ? self->no_sync(*module) : self->no_sync();
          })
      .def(
          "trigger_sync_in_backward",
          [](Core& self) { self->trigger_sync_in_backward(); })
      .def(
          "join_uneven_inputs",
          [](Core& self, std::optional<bool> even_batches) {
            return self->join_uneven_inputs(even_batches);
          })
      .def(
          "clip_grad_norm_",
          [](Core& self,
             const TensorList& parameters,
             double max_norm,
             double norm_type) {
            return self->clip_grad_norm_(parameters, max_norm, norm_type);
          },
          py::call_guard<BlockingCall>())
      .def(
          "clip_grad_value_",
          [](Core& self, const TensorList& parameters, double clip_value) {
            self->clip_grad_value_(parameters, clip_value);
          },
          py::call_guard<BlockingCall>())
      .def(
          "gather_for_metrics",
          [](Core& self, const TensorList& tensors) {
            return self->gather_for_metrics(tensors);
          },
          py::call_guard<BlockingCall>())
      .def(
          "gather_objects_for_metrics",
          [](Core& self, const std::vector<py::bytes>& objects) {
            auto list = as_json(objects);
            {
              const BlockingCall blocking_call;
              list = self->gather_for_metrics(list);
            }
            return as_bytes(list);
          })
      .def("set_trigger", [](Core& self) { self->set_trigger(); })
      .def(
          "check_trigger",
          [](Core& self) { return self->check_trigger(); },
          py::call_guard<BlockingCall>());
}

void bind_checkpoints(CoreClass& core) {
  core.def(
          "save_state",
          [](Core& self,
             const std::optional<std::string>& folder,
             bool blocking) {
            const SaveStateOptions options{.blocking = blocking};
            return (folder ? self->save_state(*folder, options)
                           : self->save_state(options))
                .string();
          },
          py::call_guard<BlockingCall>())
      .def("load_state", &load_state)
      .def(
          "wait_for_checkpoint",
          [](Core& self) { self->wait_for_checkpoint(); },
          py::call_guard<BlockingCall>())
      .def("register_values", &register_object<Registered>)
      .def("register_tensors", &register_object<RegisteredTensors>)
      .def(
          "register_random_state",
          [](Core& self, const std::string& name, const py::object& adapter) {
            const Adapter held(adapter);
            self->register_random_state(
                name,
                [held] { return held.call<at::Tensor>("save"); },
                [held](const at::Tensor& state) {
                  held.invoke("load", state);
                });
          })
      .def(
          "register_save_state_pre_hook",
          [](Core& self, const py::object& hook) {
            return self->register_save_state_pre_hook(state_hook(hook));
          })
      .def(
          "register_load_state_pre_hook",
          [](Core& self, const py::object& hook) {
            return self->register_load_state_pre_hook(state_hook(hook));
          })
      .def(
          "checkpoint_requested",
          [](Core& self) { return self->checkpoint_requested(); },
          py::call_guard<BlockingCall>())
      .def(
          "save_every",
          [](Core& self,
             std::optional<std::int64_t> steps,
             std::optional<double> minutes,
             bool blocking) {
            return py::cpp_function(
                self->save_every(
                    {.steps = steps, .minutes = minutes, .blocking = blocking}),
                py::call_guard<BlockingCall>());
          })
      .def(
          "get_state_dict",
          [](Core& self, PythonModule& module) {
            return self->get_state_dict(module);
          })
      .def(
          "save_model",
          [](Core& self,
             PythonModule& module,
             const std::string& folder,
             const std::string& max_shard_size) {
            self->save_model(
                module, folder, {.max_shard_size = max_shard_size.c_str()});
          },
          py::call_guard<BlockingCall>())
      .def_property_readonly("step", [](Core& self) { return self->step(); })
      .def_property_readonly(
          "iteration",
          [](Core& self) { return self->project_configuration().iteration; })
      .def_property_readonly("logging_dir", [](Core& self) {
        return self->logging_dir().string();
      });
}

void bind_trackers(CoreClass& core) {
  core.def(
          "init_trackers",
          [](Core& self,
             const std::string& project,
             const Json& config,
             const Json& init_kwargs) {
            self->init_trackers(project, config, init_kwargs);
          },
          py::call_guard<BlockingCall>())
      .def(
          "log",
          [](Core& self,
             const py::dict& values,
             std::optional<std::int64_t> step,
             const Json& log_kwargs) {
            self->log(
                log_values(values), {.step = step, .log_kwargs = log_kwargs});
          })
      .def(
          "log_images",
          [](Core& self,
             const py::dict& values,
             std::optional<std::int64_t> step,
             const std::string& dataformats) {
            self->log_images(
                log_values(values), {.step = step, .dataformats = dataformats});
          })
      .def(
          "log_table",
          [](Core& self,
             const std::string& name,
             const std::vector<std::string>& columns,
             const std::vector<std::vector<Json>>& rows,
             std::optional<std::int64_t> step) {
            self->log_table(name, columns, rows, {.step = step});
          })
      .def(
          "check_tracker",
          [](Core& self, const std::string& name) {
            static_cast<void>(self->get_tracker(name));
          })
      .def(
          "finish_trackers",
          [](Core& self) { self->finish_trackers(); },
          py::call_guard<BlockingCall>());
}

void bind_properties(CoreClass& core) {
  core.def_property_readonly(
          "state", [](Core& self) { return PartialState(self->state()); })
      .def_property_readonly(
          "mixed_precision",
          [](Core& self) {
            return std::string(name_of(self->mixed_precision()));
          })
      .def_property(
          "sync_gradients",
          [](Core& self) { return self->sync_gradients(); },
          [](Core& self, bool sync) { self->set_sync_gradients(sync); })
      .def_property(
          "gradient_accumulation_steps",
          [](Core& self) { return self->gradient_accumulation_steps(); },
          [](Core& self, std::int64_t steps) {
            self->set_gradient_accumulation_steps(steps);
          })
      .def_property_readonly(
          "optimizer_step_was_skipped",
          [](Core& self) { return self->optimizer_step_was_skipped(); })
      .def_property_readonly(
          "split_batches", [](Core& self) { return self->split_batches(); })
      .def_property_readonly(
          "dispatch_batches",
          [](Core& self) { return self->dispatch_batches(); })
      .def_property(
          "even_batches",
          [](Core& self) { return self->even_batches(); },
          [](Core& self, bool even) { self->set_even_batches(even); })
      .def_property_readonly(
          "use_seedable_sampler",
          [](Core& self) { return self->use_seedable_sampler(); })
      .def_property_readonly(
          "non_blocking", [](Core& self) { return self->non_blocking(); });
}

/// A `LocalSGD` and the module that it refers to.
class PythonLocalSGD {
 public:
  PythonLocalSGD(
      Core& core,
      std::shared_ptr<PythonModule> module,
      std::int64_t steps,
      bool enabled)
      : module_(std::move(module)),
        local_(
            *core, *module_, {.local_sgd_steps = steps, .enabled = enabled}) {}
  void step() { local_.step(); }
  void finish() { local_.finish(); }

 private:
  std::shared_ptr<PythonModule> module_;
  LocalSGD local_;
};

}  // namespace

void bind_accelerator(py::module_& module) {
  CoreClass core(module, "Core");
  core.def(py::init(&make_core));
  bind_preparing(core);
  bind_training(core);
  bind_checkpoints(core);
  bind_trackers(core);
  bind_properties(core);
  py::class_<Graph>(module, "Graph")
      .def(
          "__call__",
          [](Graph& graph, const TensorList& tensors) {
            return graph(tensors);
          },
          py::call_guard<BlockingCall>())
      .def_property_readonly(
          "num_graphs",
          [](const Graph& graph) { return graph.core().num_graphs(); })
      .def_property_readonly(
          "num_replays",
          [](const Graph& graph) { return graph.core().num_replays(); })
      .def_property_readonly(
          "why_not", [](const Graph& graph) { return graph.core().why_not(); });
  core.def("graph", &make_graph, py::keep_alive<0, 1>());
  py::class_<PythonLocalSGD>(module, "LocalSGD")
      .def(
          py::init<Core&, std::shared_ptr<PythonModule>, std::int64_t, bool>(),
          py::keep_alive<1, 2>())
      .def("step", &PythonLocalSGD::step, py::call_guard<BlockingCall>())
      .def("finish", &PythonLocalSGD::finish, py::call_guard<BlockingCall>());
}

}  // namespace accelerate::python
