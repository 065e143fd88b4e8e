# SPDX-License-Identifier: Apache-2.0
"""Compares the names of the package with the C++ headers, Hugging Face Accelerate (if installed), and the stubs."""

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
    """The text between the braces that follow `head`."""
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
    while re.search(r"<[^<>]*>", public):  # nested template arguments
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

    def test_python_has_all_methods_of_the_accelerator(self):
        found = methods_of("accelerator.h", "Accelerator")
        for known in ("prepare", "gather_for_metrics", "graph", "save_every", "set_sync_gradients", "end_training"):
            self.assertIn(known, found)
        self.assertGreater(len(found), 70)
        self.assertEqual(self.missing("accelerator.h", "Accelerator", Accelerator), set())

    def test_python_has_all_methods_of_the_state(self):
        self.assertIn("local_num_processes", methods_of("partial_state.h", "PartialState"))
        self.assertEqual(self.missing("partial_state.h", "PartialState", PartialState), set())

    def test_python_has_a_setter_for_each_cpp_setter(self):
        for name in methods_of("accelerator.h", "Accelerator"):
            if name.startswith("set_") and name != "set_trigger":
                self.assertIsNotNone(inspect.getattr_static(Accelerator, name[4:]).fset, name)

    def test_python_accepts_all_accelerator_options(self):
        parameters = set(inspect.signature(Accelerator).parameters)
        # `kwargs_handlers` replaces these. XLA, which `device` chooses, and
        # `record_steps` are only for C++ models.
        handlers = {name for name in fields_of("accelerator_options.h", "AcceleratorOptions") if name.endswith("_kwargs")}
        self.assertEqual(len(handlers), 5)
        options = fields_of("accelerator_options.h", "AcceleratorOptions") - handlers - {"device", "record_steps"}
        self.assertGreater(len(options), 12)
        self.assertEqual(options - parameters, set())

    def test_python_has_the_fields_of_each_option_struct(self):
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
                cpp_fields = fields_of(header, name)
                self.assertTrue(cpp_fields)
                self.assertEqual(cpp_fields - {f.name for f in dataclasses.fields(getattr(accelerate_cpp, name))}, set())


class Package(unittest.TestCase):
    def test_every_name_in_all_exists(self):
        for module in (accelerate_cpp, utils):
            for name in module.__all__:
                self.assertIsNotNone(getattr(module, name), name)
        self.assertEqual(set(accelerate_cpp._MODULE_OF) - {"load_ipython_extension"} - set(accelerate_cpp.__all__), set())


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
        """The names of a module or class, without Python's built-in ones."""
        kept = ("__init__", "__call__", "__len__", "__getitem__")
        return {name for name in vars(value) if not name.startswith("_") or name in kept}

    def test_the_module_matches_the_stubs(self):
        self.assertEqual(self.names_in(self.stub.body), self.own(core))

    def test_each_class_matches_the_stubs(self):
        for node in self.stub.body:
            if isinstance(node, ast.ClassDef):
                with self.subTest(node.name):
                    # A class without a constructor has an `__init__` that raises an error.
                    self.assertEqual(
                        self.names_in(node.body) | {"__init__"}, self.own(getattr(core, node.name)) | {"__init__"}
                    )


def hugging_face():
    try:
        importlib.import_module("accelerate.utils")
        return importlib.import_module("accelerate")
    except ImportError:
        return None


@unittest.skipIf(hugging_face() is None, "Hugging Face Accelerate is not installed")
class HuggingFaceNames(unittest.TestCase):
    """Every parameter in Hugging Face Accelerate exists here too; positional ones have the same position."""

    # Parameters that accept any argument.
    ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

    def positional(self, function) -> list:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]

    def check(self, function, hf_function, label):
        with self.subTest(label):
            expected = self.positional(hf_function)
            self.assertEqual(self.positional(function)[: len(expected)], expected)

    def test_the_accelerator_and_its_state(self):
        checked = 0
        for cls, hf_cls in ((Accelerator, hugging_face().Accelerator), (PartialState, hugging_face().PartialState)):
            self.check(cls.__init__, hf_cls.__init__, cls.__name__)
            for name in dir(hf_cls):
                hf_attribute = inspect.getattr_static(hf_cls, name)
                if name.startswith("_") or isinstance(hf_attribute, property) or not hasattr(cls, name):
                    continue
                if isinstance(hf_attribute, staticmethod):  # `trigger_sync_in_backward(model)` is a method here
                    self.assertEqual(self.positional(getattr(cls, name))[1:], self.positional(hf_attribute.__func__))
                else:
                    self.check(getattr(cls, name), getattr(hf_cls, name), f"{cls.__name__}.{name}")
                checked += 1
        self.assertGreater(checked, 50)

    def test_option_classes(self):
        names = [name for name in utils.__all__ if name.endswith(("Kwargs", "Plugin", "Configuration"))]
        self.assertEqual(len(names), 8)
        for name in names:
            expected = [field.name for field in dataclasses.fields(getattr(hugging_face().utils, name))]
            fields = [field.name for field in dataclasses.fields(getattr(utils, name))]
            with self.subTest(name):
                self.assertEqual(fields[: len(expected)], expected)

    def test_functions(self):
        for name in ("notebook_launcher", "debug_launcher"):
            self.check(getattr(launchers, name), getattr(hugging_face(), name), name)
        for name in set(utils.__all__) - {"slice_tensors"}:  # it has two unused arguments in Hugging Face Accelerate
            hf_function = getattr(hugging_face().utils, name, None)
            if inspect.isfunction(hf_function):
                self.check(getattr(utils, name), hf_function, name)


if __name__ == "__main__":
    unittest.main()
