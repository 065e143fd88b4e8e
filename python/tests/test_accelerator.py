# SPDX-License-Identifier: Apache-2.0
"""The Accelerator in one process: how `prepare` changes Python objects, and which exceptions are raised."""

import copy
import os
import random
import tempfile
import unittest

import torch
from torch.utils.data import DataLoader, TensorDataset

import accelerate_cpp
from accelerate_cpp import (
    Accelerator,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    PartialState,
    ProjectConfiguration,
    errors,
)


def data(size=24, batch_size=4, **kwargs):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(size, 3, generator=generator)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=batch_size, **kwargs)


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def loss_of(model, batch):
    x, y = batch
    return torch.nn.functional.mse_loss(model(x), y)


class Training(unittest.TestCase):
    def test_equals_a_plain_loop(self):
        plain = make_model()
        optimizer = torch.optim.AdamW(plain.parameters(), lr=0.1)
        for batch in data():
            loss_of(plain, batch).backward()
            optimizer.step()
            optimizer.zero_grad()

        accelerator = Accelerator(cpu=True)
        model = make_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        loader, same, optimizer = accelerator.prepare(data(), model, optimizer)
        self.assertIs(same, model)
        for batch in loader:
            accelerator.backward(loss_of(model, batch))
            optimizer.step()
            optimizer.zero_grad()

        for actual, expected in zip(model.parameters(), plain.parameters()):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)

    def test_adamw_is_fused_unless_the_user_chose_an_implementation(self):
        def prepared(**options):
            optimizer = torch.optim.AdamW(make_model().parameters(), **options)
            return Accelerator(cpu=True).prepare(optimizer).param_groups[0]["fused"]

        self.assertTrue(prepared())
        self.assertFalse(prepared(fused=False))
        self.assertIsNone(prepared(foreach=True))
        self.assertIsNone(prepared(lr=torch.tensor(0.1), foreach=False))

    def test_accumulates_over_micro_steps(self):
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader, model, optimizer = accelerator.prepare(data(), model, optimizer)
        synced = []
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, batch))
                self.assertEqual(model[0].weight.grad is not None, accelerator.sync_gradients)
                optimizer.step()
                optimizer.zero_grad()
            synced.append(accelerator.sync_gradients)
        self.assertEqual(synced, [False, False, True] * 2)
        self.assertEqual(accelerator.step, 2)

    def test_weights_micro_batches(self):
        plugin = GradientAccumulationPlugin(num_steps=2, weighting="weighted")
        accelerator = Accelerator(cpu=True, gradient_accumulation_plugin=plugin)
        model = accelerator.prepare(torch.nn.Linear(1, 1, bias=False))
        for x, weight in ((1.0, 1.0), (5.0, 3.0)):
            with accelerator.accumulate(weight=weight):
                accelerator.backward(model(torch.full((1, 1), x)).mean())
        self.assertAlmostEqual(model.weight.grad.item(), (1 * 1 + 5 * 3) / 4)

    def test_bf16_runs_forward_in_lower_precision_and_returns_fp32(self):
        accelerator = Accelerator(cpu=True, mixed_precision="bf16")
        model = torch.nn.Sequential(torch.nn.Linear(4, 4))
        inner = []
        model[0].register_forward_hook(lambda module, args, output: inner.append(output.dtype))
        model = accelerator.prepare(model)
        output = model(torch.ones(2, 4))
        self.assertEqual((inner[0], output.dtype), (torch.bfloat16, torch.float32))
        accelerator.backward(output.sum())
        self.assertEqual((model[0].weight.dtype, model[0].weight.grad.dtype), (torch.float32,) * 2)
        accelerator.free_memory()
        self.assertEqual(model(torch.ones(2, 4)).dtype, torch.float32)
        self.assertNotIn("forward", model.__dict__)

    def test_a_prepared_scheduler_follows_the_optimizer(self):
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        loader, model, optimizer, scheduler = accelerator.prepare(data(), model, optimizer, scheduler)
        rates = []
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, batch))
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            rates.append(scheduler.get_last_lr()[0])
        self.assertEqual(rates, [1, 0.5, 0.5, 0.25, 0.25, 0.125])
        self.assertIsInstance(scheduler, torch.optim.lr_scheduler.StepLR)

    def test_propagates_an_exception_in_a_python_autograd_function(self):
        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x.clone()

            @staticmethod
            def backward(context, gradient):
                raise KeyError("broken on purpose")

        accelerator = Accelerator(cpu=True)
        model = accelerator.prepare(make_model())
        with self.assertRaisesRegex(KeyError, "broken on purpose"):
            accelerator.backward(Broken.apply(model(torch.ones(1, 3))).sum())
        accelerator.backward(model(torch.ones(1, 3)).sum())

    def test_clips_gradients(self):
        accelerator = Accelerator(cpu=True)
        model = accelerator.prepare(torch.nn.Linear(4, 1, bias=False))
        accelerator.backward(model(torch.full((1, 4), 3.0)).sum())
        norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
        self.assertAlmostEqual(norm.item(), 6.0, places=5)
        self.assertAlmostEqual(model.weight.grad.norm().item(), 1.0, places=4)


class Loaders(unittest.TestCase):
    def read(self, loader):
        return [batch[0].tolist() for batch in loader]

    def loader(self, size=10, **kwargs):
        return DataLoader(TensorDataset(torch.arange(size)), **kwargs)

    def test_keep_a_sequential_order(self):
        loader = Accelerator(cpu=True).prepare(self.loader(batch_size=4))
        self.assertEqual(self.read(loader), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        self.assertEqual(len(loader), 3)

    def test_shuffle_differently_in_each_epoch(self):
        loader = Accelerator(cpu=True).prepare(self.loader(64, batch_size=64, shuffle=True))
        first, second = self.read(loader)[0], self.read(loader)[0]
        self.assertNotEqual(first, second)
        self.assertEqual(sorted(first), list(range(64)))
        loader.set_epoch(0)
        self.assertEqual(self.read(loader)[0], first)

    def test_use_worker_processes(self):
        for persistent in (False, True):
            loader = self.loader(batch_size=3, num_workers=2, persistent_workers=persistent)
            loader = Accelerator(cpu=True).prepare(loader)
            for _ in range(2):
                self.assertEqual(self.read(loader), [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]])
            loader._iterator = None

    def test_support_samplers_and_batch_samplers(self):
        loader = Accelerator(cpu=True).prepare(self.loader(sampler=[5, 3, 1], batch_size=2))
        self.assertEqual(self.read(loader), [[5, 3], [1]])
        loader = Accelerator(cpu=True).prepare(self.loader(batch_sampler=[[1, 2], [7], [0, 9, 8]]))
        self.assertEqual(self.read(loader), [[1, 2], [7], [0, 9, 8]])
        self.assertEqual(len(loader), 3)

    def test_support_streams(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(7))

        loader = Accelerator(cpu=True).prepare(DataLoader(Stream(), batch_size=3))
        self.assertEqual([batch.tolist() for batch in loader], [[0, 1, 2], [3, 4, 5], [6]])
        with self.assertRaises(errors.StateError):
            len(loader)

    def test_detect_the_last_batch_while_workers_prefetch(self):
        loader = Accelerator(cpu=True).prepare(self.loader(batch_size=4, num_workers=1))
        self.assertEqual([loader.end_of_dataloader for _ in loader], [False, False, True])

    def test_skip_batches(self):
        accelerator = Accelerator(cpu=True)
        loader = accelerator.prepare(self.loader(batch_size=4))
        self.assertEqual(self.read(accelerator.skip_first_batches(loader, 2)), [[8, 9]])
        self.assertEqual(len(self.read(loader)), 3)

    def test_keep_the_options_of_the_loader(self):
        plain = self.loader(batch_size=4, num_workers=1, in_order=False, prefetch_factor=3, timeout=7)
        loader = Accelerator(cpu=True).prepare(plain)
        self.assertEqual((loader.in_order, loader.prefetch_factor, loader.timeout), (False, 3, 7))

    def test_resume_where_a_state_was_saved(self):
        loader = Accelerator(cpu=True).prepare(self.loader(batch_size=3, shuffle=True))
        batches = []
        for i, batch in enumerate(loader):
            batches.append(batch[0].tolist())
            if i == 1:
                state = loader.state_dict()
        loader.load_state_dict(state)
        self.assertEqual(self.read(loader), batches[2:])


class Counter:
    def __init__(self):
        self.count, self.weights = 0, torch.zeros(2)

    def state_dict(self):
        return {"count": self.count, "nested": {"weights": self.weights}}

    def load_state_dict(self, state):
        self.count, self.weights = state["count"], state["nested"]["weights"]


class Checkpoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def prepare_run(self, optimizer_type=torch.optim.AdamW, **options):
        accelerator = Accelerator(cpu=True)
        model = make_model()
        optimizer = optimizer_type(model.parameters(), lr=0.05, **options)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
        loader, model, optimizer, scheduler = accelerator.prepare(data(shuffle=True), model, optimizer, scheduler)
        return accelerator, loader, model, optimizer, scheduler

    def steps(self, run, count, save_after=None, folder=None):
        """Trains `count` steps, in as many epochs as necessary; returns the losses."""
        accelerator, loader, model, optimizer, scheduler = run
        losses = []
        while True:
            for batch in loader:
                loss = loss_of(model, batch)
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                losses.append(loss.item())
                if len(losses) == save_after:
                    accelerator.save_state(folder)
                if len(losses) == count:
                    return losses

    def test_a_resumed_run_continues_like_an_uninterrupted_one(self):
        for kind, options in (
            (torch.optim.AdamW, {}),
            (torch.optim.AdamW, {"fused": True}),
            (torch.optim.Adam, {"amsgrad": True}),
            (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
            (torch.optim.RMSprop, {"centered": True}),
        ):
            with self.subTest(kind=kind.__name__, **options):
                folder = os.path.join(self.folder, kind.__name__)
                torch.manual_seed(3)
                first = self.prepare_run(kind, **options)
                expected = self.steps(first, 9, save_after=4, folder=folder)[4:]

                torch.manual_seed(99)
                second = self.prepare_run(kind, **options)
                report = second[0].load_state(folder)
                self.assertEqual(self.steps(second, 5), expected)
                self.assertEqual(second[4].get_last_lr(), first[4].get_last_lr())
                self.assertEqual(report["step"], 4)

    def test_restores_random_states(self):
        accelerator = Accelerator(cpu=True)
        random.seed(5)
        accelerator.save_state(os.path.join(self.folder, "a"))
        drawn = random.random(), torch.rand(1).item()
        accelerator.load_state(os.path.join(self.folder, "a"))
        self.assertEqual((random.random(), torch.rand(1).item()), drawn)

    def test_restores_registered_objects(self):
        accelerator = Accelerator(cpu=True)
        counter = Counter()
        accelerator.register_for_checkpointing(counter)
        counter.count, counter.weights = 7, torch.ones(2)
        accelerator.save_state(os.path.join(self.folder, "a"))
        counter.count, counter.weights = 0, torch.zeros(2)
        accelerator.load_state(os.path.join(self.folder, "a"))
        self.assertEqual((counter.count, counter.weights.tolist()), (7, [1, 1]))
        with self.assertRaisesRegex(errors.ArgumentError, "`list` has no `state_dict`"):
            accelerator.register_for_checkpointing([])

    def test_names_checkpoints_and_limits_their_number(self):
        project = ProjectConfiguration(project_dir=self.folder, automatic_checkpoint_naming=True, total_limit=2)
        accelerator = Accelerator(cpu=True, project_config=project)
        for _ in range(3):
            accelerator.save_state()
        self.assertEqual(
            sorted(os.listdir(os.path.join(self.folder, "checkpoints"))), ["checkpoint_1", "checkpoint_2"]
        )
        self.assertEqual(accelerator.save_iteration, 3)
        self.assertEqual(accelerator.logging_dir, self.folder)
        self.assertTrue(accelerator.load_state()["path"].endswith("checkpoint_2"))

    def test_a_first_start_has_nothing_to_load(self):
        project = ProjectConfiguration(project_dir=self.folder, automatic_checkpoint_naming=True)
        accelerator = Accelerator(cpu=True, project_config=project)
        self.assertEqual(accelerator.load_state(required=False)["path"], "")
        with self.assertRaises(errors.IoError):
            accelerator.load_state()
        accelerator.save_state()
        self.assertTrue(accelerator.load_state(required=False)["path"].endswith("checkpoint_0"))

    def test_a_checkpoint_that_does_not_match_is_reported_and_nothing_changes(self):
        first = self.prepare_run()
        first[0].save_state(os.path.join(self.folder, "a"))
        accelerator = Accelerator(cpu=True)
        other = accelerator.prepare(torch.nn.Linear(7, 7))
        before = copy.deepcopy(other.state_dict())
        with self.assertRaisesRegex(errors.FormatError, "the checkpoint has no weight `weight`"):
            accelerator.load_state(os.path.join(self.folder, "a"))
        self.assertTrue(torch.equal(other.weight, before["weight"]))

    def test_hooks_see_and_change_the_weights(self):
        accelerator, _, model, _, _ = self.prepare_run()
        seen = []

        def hook(models, weights, folder):
            seen.append((models[0] is model, sorted(weights[0]), os.path.basename(folder)))

        handle = accelerator.register_save_state_pre_hook(hook)
        accelerator.save_state(os.path.join(self.folder, "a"))
        handle.remove()
        accelerator.save_state(os.path.join(self.folder, "b"))
        self.assertEqual(seen, [(True, ["0.bias", "0.weight", "2.bias", "2.weight"], "hooks")])

    def test_saves_models_and_values_to_files(self):
        accelerator = Accelerator(cpu=True)
        model = make_model()
        accelerator.save_model(model, os.path.join(self.folder, "model"))
        path = os.path.join(self.folder, "model", "model.safetensors")
        self.assertTrue(torch.equal(accelerate_cpp.utils.load(path)["0.weight"], model[0].weight))
        accelerator.save({"a": [1, 2]}, os.path.join(self.folder, "values.json"))
        self.assertEqual(accelerate_cpp.utils.load(os.path.join(self.folder, "values.json")), {"a": [1, 2]})
        self.assertEqual(list(accelerator.get_state_dict(model)), sorted(model.state_dict()))


class BadInput(unittest.TestCase):
    def test_exceptions_keep_their_hint(self):
        accelerator = Accelerator(cpu=True)
        with self.assertRaises(errors.ArgumentError) as caught:
            accelerator.backward(torch.ones(3, requires_grad=True))
        self.assertEqual(caught.exception.hint, "reduce it first, for example with `loss.mean()`")
        self.assertEqual(
            str(caught.exception),
            "backward needs a scalar loss, but got shape [3]\nhint: reduce it first, for example with `loss.mean()`",
        )
        self.assertIsInstance(caught.exception, ValueError)

    def test_options_of_hugging_face_accelerate_are_supported_or_rejected(self):
        supported = DistributedDataParallelKwargs(
            find_unused_parameters=True, gradient_as_bucket_view=True, static_graph=True
        )
        Accelerator(cpu=True, kwargs_handlers=[supported], dynamo_backend="no")
        for handler in (
            DistributedDataParallelKwargs(dim=1),
            DistributedDataParallelKwargs(comm_wrapper="fp16"),
            DistributedDataParallelKwargs(comm_state_option={"rank": 1}),
        ):
            with self.assertRaisesRegex(errors.UnsupportedError, "does not support"):
                Accelerator(cpu=True, kwargs_handlers=[handler])
        with self.assertRaisesRegex(errors.ArgumentError, "autocast_scope is `thread`, but must be"):
            Accelerator(cpu=True, autocast_scope="thread")
        with self.assertRaisesRegex(errors.UnsupportedError, "`load_kwargs="):
            Accelerator(cpu=True).load_state("x", {"weights_only": False})
        with self.assertRaisesRegex(errors.UnsupportedError, "`map_location="):
            Accelerator(cpu=True).load_state("x", map_location="cuda:1")
        with self.assertRaisesRegex(errors.ArgumentError, "unexpected keyword argument 'x'"):
            PartialState(cpu=True, x=1)

    def test_project_folders(self):
        for project_config, expected in (
            (None, ("here", "here")),
            (ProjectConfiguration(iteration=2), ("here", "here")),
            (ProjectConfiguration(logging_dir="logs"), ("here", "logs")),
        ):
            accelerator = Accelerator(cpu=True, project_dir="here", project_config=project_config)
            self.assertEqual((accelerator.project_dir, accelerator.logging_dir), expected)
        with self.assertRaisesRegex(errors.ArgumentError, "project_dir"):
            Accelerator(cpu=True, project_dir="here", project_config=ProjectConfiguration(project_dir="there"))

    def test_rejects_unsupported_arguments(self):
        for name in ("fsdp_plugin", "torch_tp_plugin", "dynamo_backend"):
            with self.assertRaisesRegex(errors.UnsupportedError, f"does not support `{name}"):
                Accelerator(cpu=True, **{name: "x"})
        with self.assertRaisesRegex(errors.ArgumentError, "`fp7`"):
            Accelerator(cpu=True, mixed_precision="fp7")
        with self.assertRaisesRegex(errors.UnsupportedError, "fp16"):
            Accelerator(cpu=True, mixed_precision="fp16")
        with self.assertRaisesRegex(errors.ArgumentError, "kwargs_handlers contains an object of type `dict`"):
            Accelerator(cpu=True, kwargs_handlers=[{}])
        with self.assertRaisesRegex(errors.ArgumentError, "weighting is `x`"):
            Accelerator(cpu=True, gradient_accumulation_plugin=GradientAccumulationPlugin(weighting="x"))

    def test_rejects_models_that_were_not_prepared(self):
        accelerator = Accelerator(cpu=True)
        with self.assertRaisesRegex(errors.StateError, "not prepared"):
            with accelerator.accumulate(make_model()):
                pass

    def test_a_model_can_be_prepared_twice(self):
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1)
        model = accelerator.prepare(accelerator.prepare(make_model()))
        accelerator.backward(model(torch.ones(1, 3)).sum())
        plain = make_model()
        plain(torch.ones(1, 3)).sum().backward()
        torch.testing.assert_close(model[0].weight.grad, plain[0].weight.grad)

    def test_prepare_returns_other_objects_unchanged(self):
        self.assertEqual(Accelerator(cpu=True).prepare(3, "x"), (3, "x"))


if __name__ == "__main__":
    unittest.main()
