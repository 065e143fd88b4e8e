# SPDX-License-Identifier: Apache-2.0
"""Tests every method of `Accelerator` in two processes. `test_every_name.py` launches it.

    every_name.py <folder>

The first process prints the names that this file used.
"""

import contextlib
import io
import logging
import os
import signal
import sys
import warnings

import torch
from torch.utils.data import DataLoader, TensorDataset

import accelerate_cpp
from accelerate_cpp import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GeneralTracker,
    GradientAccumulationPlugin,
    LocalSGD,
    PartialState,
    ProfileKwargs,
    ProjectConfiguration,
    errors,
    find_executable_batch_size,
)
from accelerate_cpp.logging import get_logger

FOLDER = sys.argv[1]
USED = set()


class Accelerator(accelerate_cpp.Accelerator):
    """Collects the attributes that this file uses."""

    def __getattribute__(self, name):
        if sys._getframe(1).f_code.co_filename == __file__:
            USED.add(name)
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        if sys._getframe(1).f_code.co_filename == __file__:
            USED.add(f"set_{name}")
        super().__setattr__(name, value)


RANK = PartialState(cpu=True).process_index
OTHER = 1 - RANK


def linear(value=1.0):
    """`y = w · x` with two weights, the same on each process."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(model.weight, value)
    return model


def inputs(value=None):
    """The gradient of `linear(x).sum()`: 1 on the first process, 2 on the second."""
    return torch.full((1, 2), RANK + 1.0 if value is None else value)


def path(name):
    return os.path.join(FOLDER, name)


def equal_on_both(accelerator, tensor) -> bool:
    first, second = accelerator.gather(tensor.detach().flatten().unsqueeze(0))
    return torch.equal(first, second)


def loader(size=8, **kwargs):
    return DataLoader(TensorDataset(torch.arange(size)), batch_size=2, **kwargs)


# ---- processes ------------------------------------------------------------------------------------


def processes():
    accelerator = Accelerator()
    assert accelerator.state.process_index == accelerator.process_index == RANK
    assert (accelerator.num_processes, accelerator.local_process_index) == (2, RANK)
    assert accelerator.group.size == 2 and accelerator.group.rank == RANK
    assert accelerator.device == torch.device("cpu")
    assert accelerator.distributed_type == "MULTI_CPU"
    assert accelerator.use_distributed and not accelerator.multi_device
    assert accelerator.is_main_process == accelerator.is_local_main_process == (RANK == 0)
    assert accelerator.is_last_process == (RANK == 1)
    accelerator.wait_for_everyone()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        accelerator.print("once", end="")
    assert out.getvalue() == ("once" if RANK == 0 else "")


def decorators():
    accelerator = Accelerator()

    def who():
        return RANK

    assert accelerator.on_main_process(who)() == (0 if RANK == 0 else None)
    assert accelerator.on_main_process()(who)() == (0 if RANK == 0 else None)
    assert accelerator.on_local_main_process(who)() == (0 if RANK == 0 else None)
    assert accelerator.on_last_process(who)() == (1 if RANK == 1 else None)
    assert accelerator.on_process(who, process_index=1)() == (1 if RANK == 1 else None)
    assert accelerator.on_local_process(who, local_process_index=0)() == (0 if RANK == 0 else None)


def order():
    accelerator = Accelerator()
    for name, first in (("all", accelerator.main_process_first), ("local", accelerator.local_main_process_first)):
        with first():
            with open(path(name), "a") as file:
                file.write(str(RANK))
        accelerator.wait_for_everyone()
        with open(path(name)) as file:
            assert file.read() == "01"
    with accelerator.split_between_processes([1, 2, 3]) as part:
        assert part == ([1, 2] if RANK == 0 else [3])


# ---- preparing ------------------------------------------------------------------------------------


def preparing():
    accelerator = Accelerator()
    model = accelerator.prepare_model(linear(RANK))
    assert equal_on_both(accelerator, model.weight)
    optimizer = accelerator.prepare_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    scheduler = accelerator.prepare_scheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5))
    accelerator.backward(model(inputs()).sum())
    optimizer.step()
    scheduler.step()
    assert model.weight.tolist() == [[-1.5, -1.5]]  # 0, from the first process, minus the mean of 1 and 2
    # As in Hugging Face Accelerate, a scheduler step counts once per process.
    assert scheduler.get_last_lr() == [0.25]
    assert accelerator.step == 1 and not accelerator.optimizer_step_was_skipped
    batches = accelerator.prepare_data_loader(loader())
    assert len(batches) == 2
    skipped = accelerator.skip_first_batches(batches, 1)
    assert [batch.tolist() for (batch,) in skipped] == [[4 + 2 * RANK, 5 + 2 * RANK]]
    assert accelerator.unwrap_model(model) is model
    assert accelerator.prepare(3) == 3


def parameters_without_a_module():
    accelerator = Accelerator()
    weight = torch.full((2,), float(RANK), requires_grad=True)
    buffer = torch.full((1,), float(RANK))
    accelerator.prepare_parameters(["weight"], [weight], [buffer])
    norm = torch.nn.BatchNorm1d(1, momentum=1.0)
    assert accelerator.convert_sync_batchnorm(norm) is norm
    norm(torch.tensor([[0.0], [2.0]]) + 4 * accelerator.process_index)
    assert norm.running_mean.tolist() == [3.0]
    assert weight.tolist() == [0, 0] and buffer.item() == 0
    accelerator.backward((weight * inputs()[0]).sum())
    assert weight.grad.tolist() == [1.5, 1.5]


def plateau():
    accelerator = Accelerator()
    optimizer = torch.optim.SGD(linear().parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1)
    optimizer, scheduler = accelerator.prepare(optimizer, scheduler)
    rates = []
    for loss in (1.0, 1.0, 1.0):  # the second epoch without improvement exceeds the patience
        scheduler.step(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 0.1], rates


def options():
    accelerator = Accelerator(
        gradient_accumulation_steps=4,
        dataloader_config=DataLoaderConfiguration(
            split_batches=True, use_seedable_sampler=True, non_blocking=True, use_stateful_dataloader=True
        ),
    )
    assert accelerator.split_batches and accelerator.use_seedable_sampler and accelerator.non_blocking
    assert accelerator.dispatch_batches is None and accelerator.mixed_precision == "no"
    assert accelerator.even_batches
    accelerator.even_batches = False
    assert not accelerator.even_batches
    assert accelerator.gradient_accumulation_steps == 4
    accelerator.gradient_accumulation_steps = 2
    model = accelerator.prepare(linear())
    synced = []
    for _ in range(2):
        with accelerator.accumulate(model):
            accelerator.backward(model(inputs()).sum())
            synced.append(accelerator.sync_gradients)
    assert synced == [False, True] and model.weight.grad.tolist() == [[1.5, 1.5]]
    accelerator.sync_gradients = False
    assert not accelerator.sync_gradients


def random_numbers():
    accelerator = Accelerator(rng_types=["torch"])
    batches = accelerator.prepare(loader(num_workers=0))
    torch.manual_seed(RANK)
    drawn = torch.rand(2)
    assert not equal_on_both(accelerator, drawn)
    next(iter(batches))
    assert equal_on_both(accelerator, torch.rand(2))


# ---- training -------------------------------------------------------------------------------------


def local_gradients():
    accelerator = Accelerator()
    model = accelerator.prepare(linear())
    with accelerator.no_sync(model):
        accelerator.backward(model(inputs()).sum())
    assert model.weight.grad.tolist() == [[RANK + 1.0] * 2]
    accelerator.backward(model(inputs()).sum())
    assert model.weight.grad.tolist() == [[3.0, 3.0]]
    model.zero_grad()
    with accelerator.no_sync(model):
        accelerator.trigger_sync_in_backward(model)
        accelerator.backward(model(inputs()).sum())
    assert model.weight.grad.tolist() == [[1.5, 1.5]]


def uneven_inputs():
    accelerator = Accelerator()
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer = accelerator.prepare(model, optimizer)
    with accelerator.join_uneven_inputs([model]):
        for _ in range(3 - RANK):
            accelerator.backward(model(inputs()).sum())
            optimizer.step()
            optimizer.zero_grad()
    assert equal_on_both(accelerator, model.weight)
    assert model.weight[0, 0].item() < 1 - 2 * 0.5 * 1.5 + 1e-6


def clipping():
    accelerator = Accelerator()
    model = accelerator.prepare(linear())
    accelerator.backward(model(inputs(3.0)).sum())
    accelerator.unscale_gradients()
    norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
    assert abs(norm.item() - 18**0.5) < 1e-5 and abs(model.weight.grad.norm().item() - 1) < 1e-4
    accelerator.clip_grad_value_(model.parameters(), 0.25)
    assert model.weight.grad.tolist() == [[0.25, 0.25]]


def precision():
    def matmul():
        return torch.ones(2, 2) @ torch.ones(2, 2)

    accelerator = Accelerator(mixed_precision="bf16")
    assert accelerator.mixed_precision == "bf16"
    with accelerator.autocast():
        assert matmul().dtype == torch.bfloat16
    with accelerator.autocast(AutocastKwargs(enabled=False)):
        assert matmul().dtype == torch.float32

    def inside(**options):
        layer, seen = linear(), []
        # A hook on the layer, since a hook on the model sees the result after the conversion to fp32.
        model = torch.nn.Sequential(layer)
        layer.register_forward_hook(lambda module, args, result: seen.append(result.dtype))
        Accelerator(mixed_precision="bf16", **options).prepare(model)(inputs())
        return seen[0]

    assert inside() == torch.bfloat16
    assert inside(kwargs_handlers=[AutocastKwargs(enabled=False)]) == torch.float32
    assert inside(autocast_scope="manual") == torch.float32


def fp16_gradients():
    value = 1 + 2.0**-12  # not representable in fp16, which has ten mantissa bits
    for hook, expected in (("no", value), ("fp16", 1.0)):
        handler = DistributedDataParallelKwargs(comm_hook=hook, find_unused_parameters=True)
        accelerator = Accelerator(kwargs_handlers=[handler])
        model = accelerator.prepare(linear())
        accelerator.backward(model(inputs(value)).sum())
        assert model.weight.grad.tolist() == [[expected] * 2], (hook, model.weight.grad)


def buffers():
    for shared in (True, False):
        accelerator = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=shared)])
        model = linear()
        model.register_buffer("count", torch.zeros(1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = accelerator.prepare(model, optimizer)
        for _ in range(2):
            model.count += RANK + 1
            accelerator.backward(model(inputs()).sum())
            optimizer.step()
            optimizer.zero_grad()
        assert equal_on_both(accelerator, model.count) == shared, (shared, model.count)


def weighted_accumulation():
    accelerator = Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=2, weighting="weighted"))
    model = accelerator.prepare(linear())
    for value, weight in ((1.0, 1.0), (5.0, 3.0)):
        with accelerator.accumulate(weight=weight):
            accelerator.backward(model(inputs(value)).mean())
    assert model.weight.grad.tolist() == [[4.0, 4.0]]


def local_sgd():
    accelerator = Accelerator()
    model = linear(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model, optimizer = accelerator.prepare(model, optimizer)
    seen = []
    with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=2, enabled=True) as local:
        for _ in range(2):
            accelerator.backward(model(inputs()).sum())
            optimizer.step()
            optimizer.zero_grad()
            local.step()
            seen.append(model.weight[0, 0].item())
    assert seen == [-(RANK + 1.0), -3.0], seen


def graphs():
    accelerator = Accelerator()
    model = accelerator.prepare(linear(2.0))
    with contextlib.redirect_stderr(io.StringIO()):
        step = accelerator.graph(lambda x, *, scale: {"y": model(x["a"]) * scale})
        for value in (1.0, 2.0):
            result = step({"a": inputs(value)}, scale=torch.tensor(10.0))
            assert list(result) == ["y"] and result["y"].item() == 40 * value and result["y"].grad_fn is None
    assert step.why_not == "there is no GPU" and (step.num_graphs, step.num_replays) == (0, 0)
    for call, text in ((lambda: step({"a": 1}, scale=2), "an argument contains a `int`"),):
        try:
            call()
            raise AssertionError("accepted")
        except errors.ArgumentError as error:
            assert text in str(error), error


# ---- results --------------------------------------------------------------------------------------


def results():
    accelerator = Accelerator()
    local = torch.full((RANK + 1,), float(RANK))
    assert accelerator.gather(local).tolist() == [0, 1, 1]
    assert accelerator.reduce(torch.tensor(RANK + 1.0), "sum", scale=2.0).item() == 6
    padded = accelerator.pad_across_processes(local, pad_index=9)
    assert padded.tolist() == ([0, 9] if RANK == 0 else [1, 1])
    batches = accelerator.prepare(loader(5))
    seen = [value for (batch,) in batches for value in accelerator.gather_for_metrics(batch).tolist()]
    assert sorted(seen) == [0, 1, 2, 3, 4]


def triggers():
    accelerator = Accelerator()
    trigger = accelerator.set_trigger
    if RANK == 1:
        trigger()
    assert accelerator.check_trigger()
    assert not accelerator.check_trigger()


def profiles():
    ready = []
    accelerator = Accelerator(kwargs_handlers=[ProfileKwargs(output_trace_dir=path("traces"))])
    with accelerator.profile():
        torch.ones(8, 8) @ torch.ones(8, 8)
    assert os.path.getsize(os.path.join(path("traces"), f"profile_{RANK}.json")) > 0
    handler = ProfileKwargs(on_trace_ready=ready.append, record_shapes=True)
    with accelerator.profile(handler) as profiler:
        torch.ones(8, 8) @ torch.ones(8, 8)
    assert ready == [profiler]
    assert "aten::mm" in [entry["name"] for entry in profiler.key_averages()]


def log_lines():
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    logging.getLogger("every_name").addHandler(handler)
    logger = get_logger("every_name", log_level="INFO")
    logger.debug("below the level")
    logger.info("main %d", 1)
    logger.info("all", main_process_only=False)
    logger.warning_once("twice")
    logger.warning_once("twice")
    expected = [("INFO", "all")]
    if RANK == 0:
        expected = [("INFO", "main 1"), ("INFO", "all"), ("WARNING", "twice")]
    assert lines == expected, lines

    def write(record):
        with open(path("ordered"), "a") as file:
            file.write(record.getMessage())

    handler.emit = write
    logger.info(str(RANK), main_process_only=False, in_order=True)
    with open(path("ordered")) as file:
        assert file.read() == "01"


def batch_sizes():
    tried = []

    @find_executable_batch_size(starting_batch_size=100)
    def train(batch_size, extra):
        tried.append(batch_size)
        if batch_size > 85:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch_size + extra

    assert train(1) == 82 and tried == [100, 90, 81]


# ---- checkpoints ----------------------------------------------------------------------------------


class Counter:
    count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def checkpoints():
    accelerator = Accelerator()
    model = accelerator.prepare(linear())
    counter = Counter()
    counter.count = 5
    accelerator.register_for_checkpointing(counter)
    random_state = [RANK]
    accelerator.register_random_state(
        "custom",
        lambda: torch.tensor(random_state, dtype=torch.uint8),
        lambda state: random_state.__setitem__(slice(None), state.tolist()),
    )
    seen = []
    saving = accelerator.register_save_state_pre_hook(lambda models, weights, to: seen.append(("save", models[0] is model)))
    loading = accelerator.register_load_state_pre_hook(lambda models, weights, to: seen.append(("load", list(weights[0]))))
    folder = accelerator.save_state(path("state"), blocking=False)
    accelerator.wait_for_checkpoint()
    assert os.path.exists(os.path.join(folder, "manifest.json"))
    counter.count, random_state[0] = 0, 77
    with torch.no_grad():
        model.weight.zero_()
    accelerator.load_state(path("state"), {"weights_only": True}, map_location="cpu")
    assert model.weight.tolist() == [[1, 1]] and counter.count == 5 and random_state == [RANK]
    assert seen == [("save", True), ("load", ["weight"])], seen
    saving.remove()
    loading.remove()


def files():
    accelerator = Accelerator()
    model = linear()
    assert accelerator.get_state_dict(model)["weight"] is not None
    accelerator.save_model(model, path("model"))
    accelerator.save({"rank": RANK}, path("values.json"))
    accelerator.wait_for_everyone()
    assert os.path.exists(path("model/model.safetensors"))
    assert accelerate_cpp.utils.load(path("values.json")) == {"rank": 0}
    try:
        accelerator.save({"rank": RANK}, path("values.bin"), safe_serialization=False)
        raise AssertionError("accepted")
    except errors.UnsupportedError as error:
        assert "pickle" in str(error)


def names_and_requests():
    """Runs last, since a request to save and stop cannot be withdrawn."""
    project = ProjectConfiguration(automatic_checkpoint_naming=True, logging_dir=path("logs"))
    accelerator = Accelerator(project_dir=path("project"), project_config=project)
    assert accelerator.project_dir == path("project") and accelerator.logging_dir == path("logs")
    save = accelerator.save_every(steps=2, blocking=True)
    assert [save(), save()] == [False, True]
    assert accelerator.project_configuration.iteration == accelerator.save_iteration == 1
    assert os.listdir(path("project/checkpoints")) == ["checkpoint_0"]
    assert not accelerator.checkpoint_requested()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGUSR1)
    assert accelerator.checkpoint_requested()


class ListTracker(GeneralTracker):
    """Runs on every process."""

    name = "list"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self):
        self.tracker = []
        super().__init__()

    def log(self, values, step=None, **kwargs):
        self.tracker.append((step, values, kwargs))

    def log_images(self, values, step=None):
        self.tracker.append((step, [image[:4] for image in values["image"]]))

    def log_table(self, table_name, columns, data, step=None):
        self.tracker.append((step, table_name, columns, data))


def trackers():
    accelerator = Accelerator(log_with=[ListTracker(), "jsonl"], project_dir=path("tracked"))
    accelerator.init_trackers("project", {"lr": 0.1})
    accelerator.log({"rank": RANK}, step=3, log_kwargs={"list": {"tag": "x"}})
    accelerator.log_images({"image": torch.zeros(1, 2, 2)}, step=4)
    accelerator.log_table("table", ["a"], [[1]], step=5)
    logged = accelerator.get_tracker("list", unwrap=True)
    accelerator.finish_trackers()
    assert logged == [(3, {"rank": RANK}, {"tag": "x"}), (4, [b"\x89PNG"]), (5, "table", ["a"], [[1]])], logged
    accelerator.wait_for_everyone()
    assert len(os.listdir(path("tracked/project"))) == 1


def end_training():
    accelerator = Accelerator()
    model = accelerator.prepare(linear())
    assert accelerator.free_memory(model) == [None]
    accelerator.prepare(linear())
    assert accelerator.clear() == []
    accelerator.end_training()
    try:
        accelerator.wait_for_everyone()
        raise AssertionError("the process group still exists")
    except errors.StateError:
        pass


TESTS = (
    processes,
    decorators,
    order,
    preparing,
    parameters_without_a_module,
    plateau,
    options,
    random_numbers,
    local_gradients,
    uneven_inputs,
    clipping,
    precision,
    fp16_gradients,
    buffers,
    weighted_accumulation,
    local_sgd,
    graphs,
    results,
    triggers,
    profiles,
    log_lines,
    batch_sizes,
    checkpoints,
    files,
    trackers,
    names_and_requests,
    end_training,
)

if __name__ == "__main__":
    warnings.simplefilter("error")
    for test in TESTS:
        test()
    if RANK == 0:
        print(" ".join(sorted(USED)), flush=True)
