# SPDX-License-Identifier: Apache-2.0
"""`Accelerator`: the training loop's interface to devices, precision and the other ranks."""

import contextlib
import os
import weakref
from typing import Any, Callable, Optional, Union

import torch

from . import _checkpoints, _kwargs, _nests, _objects, errors, graph, modules, operations, optimizers, tracking
from . import data_loader as loaders
from ._native import core as _core
from .state import DistributedType, PartialState

_metrics = _objects.Exchange("gather_for_metrics")

_HANDLERS = {
    _kwargs.DistributedDataParallelKwargs: "ddp_kwargs",
    _kwargs.GradScalerKwargs: "scaler_kwargs",
    _kwargs.AutocastKwargs: "autocast_kwargs",
    _kwargs.InitProcessGroupKwargs: "init_process_group_kwargs",
    _kwargs.ProfileKwargs: "profile_kwargs",
}


def _handlers(kwargs_handlers) -> dict:
    result = {}
    for handler in kwargs_handlers or ():
        name = _HANDLERS.get(type(handler))
        if name is None:
            raise errors.ArgumentError(
                f"kwargs_handlers contains an object of type `{type(handler).__name__}`, which is not supported",
                "use these classes from accelerate_cpp: " + ", ".join(kind.__name__ for kind in _HANDLERS),
            )
        if name in result:
            raise errors.ArgumentError(
                f"kwargs_handlers contains more than one `{type(handler).__name__}`", "pass only one"
            )
        result[name] = handler
    return result


def _reject_unsupported(arguments: dict, allowed_values: tuple = (None,)) -> None:
    """Raises an error for arguments that only Hugging Face Accelerate supports, instead of ignoring them."""
    for name, value in arguments.items():
        if value not in allowed_values:
            argument = name if allowed_values == (None,) else f"{name}={value!r}"
            raise errors.UnsupportedError(f"accelerate_cpp does not support `{argument}`", "leave it out")


class Accelerator:
    """One process's view of a training run.

    `prepare` changes models, optimizers and schedulers in place and returns them. For loaders it returns new objects
    that yield this process's share of the batches. `backward` averages the gradients over all processes. During
    gradient accumulation `.grad` stays None until the last micro-batch of an update, so `optimizer.step()` and
    `zero_grad()` do nothing before then.
    """

    def __init__(
        self,
        device_placement: bool = True,
        split_batches: Optional[bool] = None,
        mixed_precision: Optional[str] = None,
        gradient_accumulation_steps: Optional[int] = None,
        cpu: Optional[bool] = None,
        dataloader_config: Optional[_kwargs.DataLoaderConfiguration] = None,
        deepspeed_plugin=None,
        fsdp_plugin=None,
        torch_tp_plugin=None,
        megatron_lm_plugin=None,
        rng_types: Optional[list] = None,
        log_with=None,
        project_dir: Optional[Union[str, os.PathLike]] = None,
        project_config: Optional[_kwargs.ProjectConfiguration] = None,
        gradient_accumulation_plugin: Optional[_kwargs.GradientAccumulationPlugin] = None,
        step_scheduler_with_optimizer: bool = True,
        kwargs_handlers: Optional[list] = None,
        dynamo_backend=None,
        dynamo_plugin=None,
        deepspeed_plugins=None,
        parallelism_config=None,
        *,
        allow_tf32: Optional[bool] = None,
        autocast_scope: str = "forward",
        scheduler_unit: str = "per_process",
    ):
        _reject_unsupported(
            dict(
                deepspeed_plugin=deepspeed_plugin,
                fsdp_plugin=fsdp_plugin,
                torch_tp_plugin=torch_tp_plugin,
                megatron_lm_plugin=megatron_lm_plugin,
                dynamo_plugin=dynamo_plugin,
                deepspeed_plugins=deepspeed_plugins,
                parallelism_config=parallelism_config,
            )
        )
        _reject_unsupported(dict(dynamo_backend=getattr(dynamo_backend, "value", dynamo_backend)), (None, "no", "NO"))
        if autocast_scope not in ("forward", "manual"):
            raise errors.ArgumentError(
                f"autocast_scope is `{autocast_scope}`, but must be `forward` or `manual`",
                "use `forward` to apply autocast when a prepared model is called, or `manual` to apply it only "
                "inside `autocast()`",
            )
        if gradient_accumulation_plugin is not None and gradient_accumulation_steps == 1:
            gradient_accumulation_steps = None  # 1 is the default in Hugging Face Accelerate, so it means "not set"
        handlers = _handlers(kwargs_handlers)
        self._project_configuration = _project(project_dir, project_config)
        self._autocast_kwargs = handlers.get("autocast_kwargs", _kwargs.AutocastKwargs())
        self._profile_kwargs = handlers.get("profile_kwargs", _kwargs.ProfileKwargs())
        self._trackers = tracking.chosen(log_with)
        self._core = _core.Core(
            dict(
                device_placement=device_placement,
                split_batches=split_batches,
                mixed_precision=mixed_precision,
                gradient_accumulation_steps=gradient_accumulation_steps,
                cpu=cpu or None,
                allow_tf32=allow_tf32,
                dataloader_config=_kwargs.to_dict(dataloader_config),
                gradient_accumulation_plugin=_kwargs.to_dict(gradient_accumulation_plugin),
                step_scheduler_with_optimizer=step_scheduler_with_optimizer,
                scheduler_unit=scheduler_unit,
                rng_types=None if rng_types is None else [str(getattr(kind, "value", kind)) for kind in rng_types],
                project_dir=None if project_dir is None else os.fspath(project_dir),
                project_config=_kwargs.to_dict(self._project_configuration),
                log_with=self._trackers,
                **{name: _kwargs.to_dict(handler) for name, handler in handlers.items()},
            )
        )
        self.state = PartialState(_state=self._core.state)
        self.device_placement = device_placement
        self._autocast_scope = autocast_scope
        self._core.register_random_state("python", _checkpoints.PythonRandom())
        self._core.register_random_state("numpy", _checkpoints.NumpyRandom())
        self._hooks: list = []
        self._reset_prepared()

    def _reset_prepared(self):
        self._models: list = []
        self._mirrors: dict = {}
        self._optimizers: list = []
        self._optimizer_mirrors: dict = {}
        self._schedulers: list = []
        self._dataloaders: list = []

    # Preparation ------------------------------------------------------------------------------

    def prepare(self, *args, device_placement: Optional[list] = None):
        """Prepares models, optimizers, schedulers and loaders, in any order; returns them in the same order.

        Collective for models: all processes get the parameters and buffers from process 0.
        """
        if device_placement is not None and len(device_placement) != len(args):
            raise errors.ArgumentError(
                f"`device_placement` has length {len(device_placement)}, but the number of objects is {len(args)}",
                "pass one value per object",
            )
        placements = device_placement or [None] * len(args)
        # Schedulers come last, since each needs its prepared optimizer.
        results = [
            None if optimizers.is_scheduler(item) else self._prepare_item(item, placement)
            for item, placement in zip(args, placements)
        ]
        results = [self.prepare_scheduler(item) if optimizers.is_scheduler(item) else results[i] for i, item in enumerate(args)]
        return results[0] if len(results) == 1 else tuple(results)

    def _prepare_item(self, item, device_placement):
        if isinstance(item, torch.utils.data.DataLoader):
            return self.prepare_data_loader(item, device_placement=device_placement)
        if isinstance(item, torch.nn.Module):
            return self.prepare_model(item, device_placement=device_placement)
        if isinstance(item, torch.optim.Optimizer):
            return self.prepare_optimizer(item, device_placement=device_placement)
        return item  # like Hugging Face Accelerate, returns all other objects unchanged

    def prepare_model(self, model, device_placement: Optional[bool] = None, evaluation_mode: bool = False):
        if self.device_placement if device_placement is None else device_placement:
            model.to(self.device)
        self._mirror_model(model, evaluation_mode)
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            self._synchronize_batch_norms(model, torch.nn.SyncBatchNorm)
        if self.mixed_precision != "no" and self._autocast_scope == "forward":
            modules.wrap_forward(model, self.device.type, self.mixed_precision, self._autocast_kwargs)
        return model

    def convert_sync_batchnorm(self, model: torch.nn.Module) -> torch.nn.Module:
        """Makes the batch norms in `model` compute their statistics over all processes in training; returns `model`.

        `torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)` before `prepare` has the same effect.
        """
        self._synchronize_batch_norms(model, torch.nn.modules.batchnorm._BatchNorm)
        return model

    def _synchronize_batch_norms(self, model, kind: type) -> None:
        batch_norms = modules.mirror_of_batch_norms(model, kind)
        if batch_norms is not None:
            self._core.convert_sync_batchnorm(batch_norms)

    def _mirror_model(self, model, evaluation_mode=False):
        self._mirrors.pop(id(model), None)  # The core drops the previous mirror.
        mirror = modules.mirror(model)
        self._core.prepare_model(mirror, evaluation_mode)
        if not any(known is model for known in self._models):
            self._models.append(model)
        self._mirrors[id(model)] = mirror

    def prepare_optimizer(self, optimizer, device_placement: Optional[bool] = None):
        if id(optimizer) not in self._optimizer_mirrors:
            optimizers.choose_kernel(optimizer)
            mirror = optimizers.mirror_optimizer(optimizer)
            self._core.prepare_optimizer(mirror)
            self._optimizer_mirrors[id(optimizer)] = mirror
            self._optimizers.append(optimizer)
        return optimizer

    def prepare_scheduler(self, scheduler):
        if not optimizers.is_prepared_scheduler(scheduler):
            optimizer = scheduler.optimizer
            mirror = self._optimizer_mirrors.get(id(optimizer)) or optimizers.mirror_optimizer(optimizer)
            self._core.prepare_scheduler(optimizers.mirror_scheduler(scheduler, mirror))
            self._schedulers.append(scheduler)
        return scheduler

    def prepare_parameters(self, names: list, tensors: list, buffers: list = ()) -> None:
        """Like `prepare_model`, for a model that is not an `nn.Module`. `names` and `tensors` have the same order.

        Collective.
        """
        self._core.prepare_parameters(list(names), list(tensors), list(buffers))

    def prepare_data_loader(self, data_loader, device_placement: Optional[bool] = None, slice_fn_for_dispatch=None):
        _reject_unsupported(dict(slice_fn_for_dispatch=slice_fn_for_dispatch))
        if isinstance(data_loader, loaders.DataLoaderBase) and any(data_loader is d for d in self._dataloaders):
            return data_loader
        moves_batches = self.device_placement if device_placement is None else device_placement
        prepared = loaders.prepare(data_loader, self._core, self.device if moves_batches else None)
        self._dataloaders.append(prepared)
        return prepared

    # Training ---------------------------------------------------------------------------------

    def backward(self, loss, **kwargs) -> None:
        """Computes the gradients of `loss`, scaled so that the micro-batches of an update act like one large batch."""
        unknown = set(kwargs) - {"retain_graph", "create_graph"}
        if unknown:
            raise TypeError(f"backward() got an unexpected keyword argument `{sorted(unknown)[0]}`")
        self._core.backward(loss, bool(kwargs.get("retain_graph")), bool(kwargs.get("create_graph")))

    @contextlib.contextmanager
    def accumulate(self, *models, weight: Optional[float] = None):
        """Runs the block as one micro-batch of gradient accumulation, for all prepared objects."""
        for model in models:
            self._mirror_of(model, "accumulate")
        region = self._core.accumulate(weight)
        try:
            yield
        finally:
            region.end()

    @contextlib.contextmanager
    def no_sync(self, model=None):
        """Disables gradient synchronization: backward passes inside the block only add to the local `.grad`."""
        region = self._core.no_sync(None if model is None else self._mirror_of(model, "no_sync"))
        try:
            yield
        finally:
            region.end()

    def trigger_sync_in_backward(self, model=None) -> None:
        """Makes the next backward pass inside `no_sync` synchronize gradients."""
        self._core.trigger_sync_in_backward()

    @contextlib.contextmanager
    def join_uneven_inputs(self, joinables=None, even_batches: Optional[bool] = None):
        """Allows processes to have different numbers of batches inside the block."""
        region = self._core.join_uneven_inputs(even_batches)
        try:
            yield
        except BaseException:
            region.abandon()
            raise
        region.end()

    def clip_grad_norm_(self, parameters, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Scales the gradients so that their norm is at most `max_norm`; returns the norm before scaling."""
        return self._core.clip_grad_norm_(_list_of(parameters), float(max_norm), float(norm_type))

    def clip_grad_value_(self, parameters, clip_value: float) -> None:
        self._core.clip_grad_value_(_list_of(parameters), float(clip_value))

    def unscale_gradients(self, optimizer=None) -> None:
        """Has no effect: after `backward`, `.grad` is already unscaled, even with fp16."""

    def autocast(self, autocast_handler: Optional[_kwargs.AutocastKwargs] = None):
        """Returns an autocast context with this Accelerator's mixed precision."""
        handler = autocast_handler or self._autocast_kwargs
        precision = modules._PRECISIONS.get(self.mixed_precision)
        return torch.autocast(
            self.device.type,
            dtype=precision,
            enabled=handler.enabled and precision is not None,
            cache_enabled=handler.cache_enabled,
        )

    def graph(self, function: Callable, *, warmup_steps: int = 2, max_graphs: int = 16) -> graph.GraphedFunction:
        """Captures the GPU work of `function` in CUDA graphs and replays them; see `GraphedFunction`."""
        return graph.GraphedFunction(self._core, function, warmup_steps, max_graphs)

    # Results ----------------------------------------------------------------------------------

    def gather(self, tensor: Any) -> Any:
        return operations.gather(tensor, group=self._core.state.group)

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """Gathers the rows of the current batch from all processes, without padding."""
        tensors = _nests.tensors_of(input_data)
        if tensors and not use_gather_object:
            return _nests.with_tensors(input_data, self._core.gather_for_metrics(tensors))
        return _metrics.unpack(self._core.gather_objects_for_metrics(_metrics.pack(input_data)))

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        return operations.reduce(tensor, reduction, scale, group=self._core.state.group)

    def pad_across_processes(self, tensor: Any, dim: int = 0, pad_index: int = 0, pad_first: bool = False) -> Any:
        return operations.pad_across_processes(tensor, dim, pad_index, pad_first, group=self._core.state.group)

    @contextlib.contextmanager
    def profile(self, profile_handler: Optional[_kwargs.ProfileKwargs] = None):
        """Profiles the code inside the block; writes one trace per process."""
        profiler = _core.Profiler(_kwargs.to_dict(profile_handler or self._profile_kwargs), self.process_index)
        try:
            yield profiler
        finally:
            profiler.stop()

    def skip_first_batches(self, dataloader, num_batches: int = 0):
        return loaders.skip_first_batches(dataloader, num_batches)

    def set_trigger(self) -> None:
        self._core.set_trigger()

    def check_trigger(self) -> bool:
        return self._core.check_trigger()

    # Checkpoints ------------------------------------------------------------------------------

    def save_state(self, output_dir: Optional[str] = None, safe_serialization: bool = True, *, blocking: bool = True):
        """Saves everything a run needs to resume; returns the folder, which is never partially written."""
        _checkpoints.check_safe(safe_serialization)
        return self._core.save_state(None if output_dir is None else os.fspath(output_dir), blocking)

    def load_state(
        self,
        input_dir: Optional[str] = None,
        load_kwargs: Optional[dict] = None,
        *,
        strict: bool = True,
        required: bool = True,
        map_location: Optional[str] = None,
    ) -> dict:
        """Restores a saved state, with any number of processes; returns a summary of what was loaded.

        With `required=False` and without a folder, a run that has not saved anything yet begins from the start: nothing
        changes, and `path` in the summary is empty.

        `load_kwargs` and `map_location` exist for compatibility with Hugging Face Accelerate. This library never
        unpickles, so `load_kwargs` can only be `{"weights_only": True}`. It loads each tensor directly onto the device
        where the tensor is used, so `map_location` can only be `cpu` or `on_device`, and has no effect.
        """
        _reject_unsupported(dict(load_kwargs=load_kwargs), (None, {}, {"weights_only": True}))
        _reject_unsupported(dict(map_location=map_location), (None, "cpu", "on_device"))
        return self._core.load_state(None if input_dir is None else os.fspath(input_dir), strict, required)

    def wait_for_checkpoint(self) -> None:
        """Waits until a background save has finished."""
        self._core.wait_for_checkpoint()

    def register_for_checkpointing(self, *objects) -> None:
        """Adds objects with a `state_dict()` of plain values and tensors to the checkpoint; process 0 saves them."""
        for item in objects:
            adapter = _checkpoints.Registered(item)
            self._core.register_values(adapter)
            if adapter.has_tensors:
                self._core.register_tensors(adapter)

    def register_random_state(self, name: str, save: Callable, load: Callable) -> None:
        """Registers a random generator other than torch's: each process saves the generator's state in checkpoints."""
        self._core.register_random_state(name, _checkpoints.RandomState(save, load))

    def register_save_state_pre_hook(self, hook: Callable) -> "_RemovableHook":
        """Calls `hook(models, weights, folder)` before weights are saved; weights the hook removes are not saved."""
        return self._add_hook(self._core.register_save_state_pre_hook, hook)

    def register_load_state_pre_hook(self, hook: Callable) -> "_RemovableHook":
        """Calls `hook(models, weights, folder)` before weights are loaded."""
        return self._add_hook(self._core.register_load_state_pre_hook, hook)

    def _add_hook(self, register, hook):
        def call(weights, folder):
            hook(self._models, weights, folder)
            return weights

        removable = _RemovableHook(register(call), self._hooks)
        self._hooks.append(removable)
        return removable

    def checkpoint_requested(self) -> bool:
        """Whether any process has received SIGTERM or SIGUSR1. At each step, all processes get the same result.

        If so, save a checkpoint, then call `sys.exit(PREEMPTED_EXIT_CODE)`.
        """
        return self._core.checkpoint_requested()

    def save_every(self, steps: Optional[int] = None, minutes: Optional[float] = None, blocking: bool = False):
        """Returns a function to call once per step. It saves when a save is due, and returns whether it saved."""
        return self._core.save_every(steps, minutes, blocking)

    def get_state_dict(self, model, unwrap: bool = True) -> dict:
        """Returns parameters and buffers by name; the tensors are shared with the model."""
        return self._core.get_state_dict(modules.mirror(model))

    def save_model(self, model, save_directory, max_shard_size: str = "10GB", safe_serialization: bool = True) -> None:
        """Writes a model's weights in the Hugging Face layout, on the main process."""
        _checkpoints.check_safe(safe_serialization)
        self._core.save_model(modules.mirror(model), os.fspath(save_directory), str(max_shard_size))

    def save(self, obj, f, safe_serialization: bool = True) -> None:
        """Writes a dict of tensors as safetensors, or plain values as JSON, on the main process."""
        _checkpoints.check_safe(safe_serialization)
        each_node = self.project_configuration.save_on_each_node
        if self.is_local_main_process if each_node else self.is_main_process:
            _checkpoints.save(obj, os.fspath(f), _core)

    @property
    def save_iteration(self) -> int:
        return self._core.iteration

    @property
    def project_configuration(self) -> _kwargs.ProjectConfiguration:
        """Where checkpoints are saved, and the number of the next checkpoint."""
        self._project_configuration.iteration = self.save_iteration
        return self._project_configuration

    @property
    def step(self) -> int:
        """The number of optimizer updates so far, including those before the run was resumed."""
        return self._core.step

    # Trackers ---------------------------------------------------------------------------------

    def init_trackers(
        self, project_name: str, config: Optional[dict] = None, init_kwargs: Optional[dict] = None
    ) -> None:
        """Starts the trackers of `log_with` and gives them the configuration of the run."""
        # Trackers in Python must finish before the interpreter shuts down.
        weakref.finalize(self, self._core.finish_trackers)
        self._core.init_trackers(project_name, tracking.plain(config), init_kwargs or {})

    def log(self, values: dict, step: Optional[int] = None, log_kwargs: Optional[dict] = None) -> None:
        """Passes values to all trackers. Waits for neither a GPU nor a tracker."""
        self._core.log(values, step, log_kwargs or {})

    def log_images(self, values: dict, step: Optional[int] = None, *, dataformats: str = "NCHW") -> None:
        """Passes tensors with images to all trackers: uint8, or real numbers from 0 to 1."""
        self._core.log_images(values, step, dataformats)

    def log_table(self, table_name: str, columns: list, data: list, step: Optional[int] = None) -> None:
        """Passes a table to all trackers; each row of `data` has one value per column."""
        self._core.log_table(table_name, columns, [tracking.plain(row) for row in data], step)

    def get_tracker(self, name: str, unwrap: bool = False):
        """Returns the tracker with this name or, if `unwrap` is true, the `tracker` attribute of that tracker.

        On a process that does not have the tracker, returns a tracker that does nothing.
        """
        self._core.check_tracker(name)
        for tracker in self._trackers:
            if not isinstance(tracker, str) and tracker.name == name:
                if tracker.main_process_only and not self.is_main_process or tracker.instance is None:
                    return tracking.GeneralTracker(_blank=True)
                return tracker.instance.tracker if unwrap else tracker.instance
        native = tracking.NativeTracker(name)
        return native.tracker if unwrap else native

    def finish_trackers(self) -> None:
        """Waits until the trackers have handled all values, then closes them; `end_training` does this, too."""
        self._core.finish_trackers()

    # Processes --------------------------------------------------------------------------------

    @property
    def group(self):
        """The process group of all processes; see `PartialState.group`."""
        return self.state.group

    @property
    def device(self) -> torch.device:
        return self.state.device

    @property
    def distributed_type(self) -> DistributedType:
        return self.state.distributed_type

    num_processes = property(lambda self: self.state.num_processes)
    process_index = property(lambda self: self.state.process_index)
    local_process_index = property(lambda self: self.state.local_process_index)
    is_main_process = property(lambda self: self.state.is_main_process)
    is_local_main_process = property(lambda self: self.state.is_local_main_process)
    is_last_process = property(lambda self: self.state.is_last_process)
    use_distributed = property(lambda self: self.state.use_distributed)
    multi_device = property(lambda self: self.use_distributed and self.device.type != "cpu")

    def wait_for_everyone(self) -> None:
        self.state.wait_for_everyone()

    def main_process_first(self):
        return self.state.main_process_first()

    def local_main_process_first(self):
        return self.state.local_main_process_first()

    def on_main_process(self, function=None):
        return self.state.on_main_process(function)

    def on_local_main_process(self, function=None):
        return self.state.on_local_main_process(function)

    def on_last_process(self, function):
        return self.state.on_last_process(function)

    def on_process(self, function=None, process_index: Optional[int] = None):
        return self.state.on_process(function, process_index)

    def on_local_process(self, function=None, local_process_index: Optional[int] = None):
        return self.state.on_local_process(function, local_process_index)

    def split_between_processes(self, inputs, apply_padding: bool = False):
        return self.state.split_between_processes(inputs, apply_padding)

    def print(self, *args, **kwargs) -> None:
        """Prints once per machine."""
        self.state.print(*args, **kwargs)

    # Settings ---------------------------------------------------------------------------------

    mixed_precision = property(lambda self: self._core.mixed_precision)
    optimizer_step_was_skipped = property(lambda self: self._core.optimizer_step_was_skipped)
    split_batches = property(lambda self: self._core.split_batches)
    dispatch_batches = property(lambda self: self._core.dispatch_batches)
    use_seedable_sampler = property(lambda self: self._core.use_seedable_sampler)
    non_blocking = property(lambda self: self._core.non_blocking)
    project_dir = property(lambda self: self._project_configuration.project_dir)
    logging_dir = property(lambda self: self._core.logging_dir or None)

    @property
    def sync_gradients(self) -> bool:
        return self._core.sync_gradients

    @sync_gradients.setter
    def sync_gradients(self, value: bool) -> None:
        self._core.sync_gradients = value

    @property
    def gradient_accumulation_steps(self) -> int:
        return self._core.gradient_accumulation_steps

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, value: int) -> None:
        self._core.gradient_accumulation_steps = value

    @property
    def even_batches(self) -> bool:
        return self._core.even_batches

    @even_batches.setter
    def even_batches(self, value: bool) -> None:
        self._core.even_batches = value

    # Cleanup ----------------------------------------------------------------------------------

    def unwrap_model(self, model, keep_fp32_wrapper: bool = True, keep_torch_compile: bool = True):
        """Returns the model itself, since `prepare` does not wrap it. `keep_fp32_wrapper=False` removes autocast."""
        if not keep_fp32_wrapper:
            modules.unwrap_forward(model)
        return model

    def free_memory(self, *objects):
        """Releases all prepared objects, which can still be used without this Accelerator."""
        for model in self._models:
            modules.unwrap_forward(model)
        for scheduler in self._schedulers:
            optimizers.release_scheduler(scheduler)
        self._core.free_memory()
        self._reset_prepared()
        return [None] * len(objects)

    def clear(self, *objects):
        return self.free_memory(*objects)

    def end_training(self) -> None:
        """Finishes the trackers, waits for all processes, then leaves the process group."""
        self._core.end_training()

    def _mirror_of(self, model, caller: str):
        mirror = self._mirrors.get(id(model))
        if mirror is None:
            raise errors.StateError(f"{caller} got a model that was not prepared", "pass it to prepare() first")
        return mirror


def _project(project_dir, project_config) -> _kwargs.ProjectConfiguration:
    if project_config is None:
        return _kwargs.ProjectConfiguration(project_dir=project_dir)
    if project_config.project_dir is None:
        project_config.set_directories(project_dir)
    return project_config


class _RemovableHook:
    def __init__(self, region, hooks):
        self._region, self._hooks = region, hooks

    def remove(self) -> None:
        self._region.end()
        if self in self._hooks:
            self._hooks.remove(self)


def _list_of(parameters) -> list:
    return [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
