# SPDX-License-Identifier: Apache-2.0
"""Names: those of the C++ headers, of the peer where it is installed, and of the stubs."""

import ast
import dataclasses
import importlib
import inspect
import os
import re
import unittest

import support

import accelerate_cpp
from accelerate_cpp import Accelerator, PartialState, launchers, utils
from accelerate_cpp._native import core

HEADERS = os.path.join(support.ROOT, "include", "accelerate")


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def body_of(text: str, head: str) -> str:
    """What stands between the braces that follow `head`."""
    begin = text.index("{", text.index(head))
    depth = 0
    for end in range(begin, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[begin + 1 : end]
    raise ValueError(head)


def without_inner(text: str) -> str:
    """A class without comments and without the bodies of its functions."""
    text = re.sub(r"//[^\n]*", "", text)
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", ";", text)
    return text


def methods_of(header: str, name: str) -> set:
    """The names of the public functions of a class."""
    text = without_inner(body_of(read(os.path.join(HEADERS, header)), f"class ACCELERATE_API {name} {{"))
    public = text.split("\n private:")[0]
    while re.search(r"<[^<>]*>", public):  # types inside types
        public = re.sub(r"<[^<>]*>", "", public)
    found = set()
    for declaration in re.sub(r"requires.*\n", "", public).split(";"):
        match = re.search(r"([A-Za-z_]\w*)\s*\(", declaration)
        if match and not re.match(r"\s*using\b", declaration):
            found.add(match.group(1))
    return found - {name, "operator"}


def fields_of(header: str, name: str) -> set:
    text = without_inner(body_of(read(os.path.join(HEADERS, header)), f"struct {name} {{"))
    return set(re.findall(r"(\w+)\s*(?:=[^;]*)?;", text)) - {"nullopt"}


class Headers(unittest.TestCase):
    def python_names(self, kind) -> set:
        return {name for name in dir(kind(cpu=True)) if not name.startswith("_")}

    def missing(self, header, name, kind) -> set:
        # `set_x(value)` is `x = value`.
        return {re.sub("^set_(?!trigger)", "", found) for found in methods_of(header, name)} - self.python_names(kind)

    def test_python_has_what_the_accelerator_has(self):
        found = methods_of("accelerator.h", "Accelerator")
        for known in ("prepare", "gather_for_metrics", "graph", "save_every", "set_sync_gradients", "end_training"):
            self.assertIn(known, found)
        self.assertGreater(len(found), 70)
        self.assertEqual(self.missing("accelerator.h", "Accelerator", Accelerator), set())

    def test_python_has_what_the_state_has(self):
        self.assertIn("local_num_processes", methods_of("partial_state.h", "PartialState"))
        self.assertEqual(self.missing("partial_state.h", "PartialState", PartialState), set())

    def test_what_cpp_sets_python_lets_be_set(self):
        for name in methods_of("accelerator.h", "Accelerator"):
            if name.startswith("set_") and name != "set_trigger":
                self.assertIsNotNone(inspect.getattr_static(Accelerator, name[4:]).fset, name)

    def test_python_takes_the_options(self):
        given = set(inspect.signature(Accelerator).parameters)
        # These are what `kwargs_handlers` holds, and a recording of C++ models only.
        handlers = {name for name in fields_of("accelerator_options.h", "AcceleratorOptions") if name.endswith("_kwargs")}
        self.assertEqual(len(handlers), 5)
        options = fields_of("accelerator_options.h", "AcceleratorOptions") - handlers - {"record_steps"}
        self.assertGreater(len(options), 12)
        self.assertEqual(options - given, set())

    def test_python_has_the_fields_of_each_group(self):
        for header, name in (
            ("accelerator_options.h", "GradientAccumulationPlugin"),
            ("accelerator_options.h", "DistributedDataParallelKwargs"),
            ("data_loader_configuration.h", "DataLoaderConfiguration"),
            ("precision.h", "AutocastKwargs"),
            ("precision.h", "GradScalerKwargs"),
            ("partial_state.h", "InitProcessGroupKwargs"),
            ("profiler.h", "ProfileKwargs"),
            ("checkpoint.h", "ProjectConfiguration"),
        ):
            with self.subTest(name):
                there = fields_of(header, name)
                self.assertTrue(there)
                self.assertEqual(there - {f.name for f in dataclasses.fields(getattr(accelerate_cpp, name))}, set())


class Package(unittest.TestCase):
    def test_every_name_of_the_package_is_there(self):
        for module in (accelerate_cpp, utils):
            for name in module.__all__:
                self.assertIsNotNone(getattr(module, name), name)
        self.assertEqual(set(accelerate_cpp._HOME_OF) - {"load_ipython_extension"} - set(accelerate_cpp.__all__), set())


class Stubs(unittest.TestCase):
    def setUp(self):
        path = os.path.join(os.path.dirname(accelerate_cpp.__file__), "_core.pyi")
        self.stub = ast.parse(read(path))

    @staticmethod
    def names_in(nodes) -> set:
        found = set()
        for node in nodes:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign):
                found.add(node.target.id)
        return found

    @staticmethod
    def own(value) -> set:
        """The names of a module or class, Python's own excepted."""
        kept = ("__init__", "__call__", "__len__", "__getitem__")
        return {name for name in vars(value) if not name.startswith("_") or name in kept}

    def test_the_module_has_what_the_stubs_say(self):
        self.assertEqual(self.names_in(self.stub.body), self.own(core))

    def test_each_class_has_what_the_stubs_say(self):
        for node in self.stub.body:
            if isinstance(node, ast.ClassDef):
                with self.subTest(node.name):
                    # A class without a constructor says so by an `__init__` that refuses.
                    self.assertEqual(
                        self.names_in(node.body) | {"__init__"}, self.own(getattr(core, node.name)) | {"__init__"}
                    )


def peer():
    try:
        importlib.import_module("accelerate.utils")
        return importlib.import_module("accelerate")
    except ImportError:
        return None


@unittest.skipIf(peer() is None, "the peer is not installed")
class Peer(unittest.TestCase):
    """Each parameter of the peer's is here under its name; positional ones in the same place."""

    # What takes anything here: by position and by name.
    ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

    def positional(self, function) -> list:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]

    def check(self, ours, theirs, label):
        with self.subTest(label):
            expected = self.positional(theirs)
            self.assertEqual(self.positional(ours)[: len(expected)], expected)

    def test_the_accelerator_and_its_state(self):
        checked = 0
        for ours, theirs in ((Accelerator, peer().Accelerator), (PartialState, peer().PartialState)):
            self.check(ours.__init__, theirs.__init__, ours.__name__)
            for name in dir(theirs):
                there = inspect.getattr_static(theirs, name)
                if name.startswith("_") or isinstance(there, property) or not hasattr(ours, name):
                    continue
                if isinstance(there, staticmethod):  # `trigger_sync_in_backward(model)`, a method here
                    self.assertEqual(self.positional(getattr(ours, name))[1:], self.positional(there.__func__))
                else:
                    self.check(getattr(ours, name), getattr(theirs, name), f"{ours.__name__}.{name}")
                checked += 1
        self.assertGreater(checked, 50)

    def test_groups_of_settings(self):
        names = [name for name in utils.__all__ if name.endswith(("Kwargs", "Plugin", "Configuration"))]
        self.assertEqual(len(names), 8)
        for name in names:
            theirs = [field.name for field in dataclasses.fields(getattr(peer().utils, name))]
            ours = [field.name for field in dataclasses.fields(getattr(utils, name))]
            with self.subTest(name):
                self.assertEqual(ours[: len(theirs)], theirs)

    def test_functions(self):
        for name in ("notebook_launcher", "debug_launcher"):
            self.check(getattr(launchers, name), getattr(peer(), name), name)
        for name in set(utils.__all__) - {"slice_tensors"}:  # has two arguments there that it does not use
            theirs = getattr(peer().utils, name, None)
            if inspect.isfunction(theirs):
                self.check(getattr(utils, name), theirs, name)


if __name__ == "__main__":
    unittest.main()
