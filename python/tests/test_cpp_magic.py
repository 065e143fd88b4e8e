# SPDX-License-Identifier: Apache-2.0
"""C++ cells: compiled, cached, called and launched.

Needs torch, a compiler, and either the package or ACCELERATE_TOOLCHAIN.
The first run precompiles LibTorch's headers, which takes half a minute; set ACCELERATE_CELL_CACHE to keep them.
"""

import fcntl
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch

from accelerate_cpp import cpp_cells, cpp_magic, errors


class CppMagic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.environ["XDG_CACHE_HOME"] = os.environ.get("ACCELERATE_CELL_CACHE", cls.folder.name)
        cls.messages = []
        cpp_cells.compile_cell("int warm_up() { return 0; }", [], False, cls.messages.append)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def cell(self, code, line=""):
        names = {}
        cpp_magic.cpp(line, code, names)
        return names

    def test_functions_become_python_functions(self):
        names = self.cell(
            "int add(int a, int b = 5) { return a + b; }\nstd::string hello(const std::string& who) { return who + '!'; }"
        )
        self.assertEqual(sorted(names), ["add", "hello"])
        self.assertEqual(names["add"](1, 2), 3)
        self.assertEqual(names["add"](a=1), 6)
        self.assertEqual(names["hello"]("you"), "you!")

    def test_tensors_are_not_copied_and_keep_their_gradients(self):
        names = self.cell(
            "void fill(torch::Tensor x) { x.fill_(7); }\ntorch::Tensor twice(torch::Tensor x) { return 2 * x; }"
        )
        tensor = torch.zeros(3)
        names["fill"](tensor)
        self.assertEqual(tensor.tolist(), [7, 7, 7])
        weight = torch.ones(2, requires_grad=True)
        names["twice"](weight).sum().backward()
        self.assertEqual(weight.grad.tolist(), [2, 2])

    def test_a_cell_with_the_same_content_is_compiled_only_once(self):
        code = f"int unique_{os.getpid()}() {{ return 3; }}"
        with mock.patch.object(cpp_cells, "_execute", wraps=cpp_cells._execute) as compiler:
            self.cell(code)
            first = compiler.call_count
            self.cell(code)
            self.assertEqual(compiler.call_count, first)
            self.cell(code.replace("3", "4"))
            self.assertGreater(compiler.call_count, first)

    def test_cells_come_only_from_a_folder_that_no_other_user_can_write_to(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, XDG_CACHE_HOME=folder):
            root = Path(folder) / "accelerate-cpp"
            self.assertEqual(cpp_cells.cache_folder(), root / "cells")
            self.assertEqual(root.stat().st_mode & 0o777, 0o700)
            root.chmod(0o755)
            cpp_cells.cache_folder()
            self.assertEqual(root.stat().st_mode & 0o777, 0o700)
            root.chmod(0o777)
            with self.assertRaisesRegex(cpp_magic.CppCompileError, "is not a folder that only this user can access"):
                self.cell("int planted() { return 1; }")
            root.chmod(0o700)
            Path(folder).chmod(0o1777)
            cpp_cells.cache_folder()
            Path(folder).chmod(0o777)
            with self.assertRaisesRegex(cpp_cells.CompilerError, "other users can replace .*accelerate-cpp, because"):
                cpp_cells.cache_folder()

    def test_errors_name_the_line_of_the_cell(self):
        with self.assertRaises(cpp_magic.CppCompileError) as context:
            self.cell("int f() {\n  return 1;\n}\nint g() {\n  return nothing_here;\n}")
        self.assertRegex(context.exception.messages, r"cell:5:10: error: .*nothing_here")
        self.assertEqual(context.exception._render_traceback_()[0], context.exception.messages.rstrip("\n"))

    def test_reports_a_cell_without_functions_and_unknown_options(self):
        with self.assertRaisesRegex(cpp_magic.CppCompileError, "does not define a function"):
            self.cell("int x = 3;")
        with self.assertRaisesRegex(cpp_magic.CppCompileError, "no option `--num_processes`"):
            self.cell("int f() { return 1; }", "--num_processes 2")

    def test_defaults_have_the_types_of_their_arguments(self):
        names = self.cell(
            "int count(std::vector<int> x = {}) { return static_cast<int>(x.size()); }\n"
            "int total(const std::map<std::string, int>& x = {{\"a\", 1}, {\"b\", 2}}) {\n"
            "  int sum = 0;\n  for (const auto& [key, value] : x) { sum += value; }\n  return sum;\n}\n"
            "bool is_empty(const std::optional<torch::Tensor>& x = {}) { return !x.has_value(); }\n"
            'std::string word(std::string x = "a, b", double = 1) { return x; }\n'
            "double half(double x = 1) { return x / 2; }"
        )
        self.assertEqual((names["count"](), names["count"]([1, 2])), (0, 2))
        self.assertEqual((names["total"](), names["total"]({"c": 5})), (3, 5))
        self.assertEqual((names["is_empty"](), names["is_empty"](torch.ones(1))), (True, False))
        self.assertEqual(names["word"]("x", 2.0), "x")
        self.assertEqual(names["half"](), 0.5)

    def test_waiting_for_the_lock_times_out(self):
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "lock", "w") as holder:
            fcntl.flock(holder, fcntl.LOCK_EX)
            with mock.patch.object(cpp_cells, "COMPILE_TIMEOUT", 0.3):
                with self.assertRaisesRegex(cpp_cells.CompilerError, "another process has been compiling for 0.3 s"):
                    with cpp_cells._locked(Path(folder)):
                        pass
            holder.close()
            with cpp_cells._locked(Path(folder)):
                pass

    def test_cpp_exceptions_become_exceptions_of_the_package(self):
        lines = [f'  if (name == "{name}") {{ throw accelerate::{name}("it", "do"); }}\n' for name in cpp_cells._ERRORS]
        fail = self.cell(
            f"struct Derived : accelerate::RankError {{ using RankError::RankError; }};\n"
            f"void fail(const std::string& name) {{\n{''.join(lines)}"
            '  if (name == "Derived") { throw Derived("it", "do"); }\n  throw accelerate::Error("it", "do");\n}'
        )["fail"]
        for name in [*cpp_cells._ERRORS, "Error"]:
            with self.assertRaises(errors.Error) as caught:
                fail(name)
            self.assertIs(type(caught.exception), getattr(errors, name))
            self.assertEqual((caught.exception.message, caught.exception.hint), ("it", "do"))
        with self.assertRaises(errors.RankError):
            fail("Derived")

    def test_exceptions_keep_their_hint(self):
        names = self.cell(
            'void accelerate_error() { throw accelerate::ArgumentError("`lr` is -1", "raise it"); }\n'
            "void torch_error() { torch::ones({2, 3}).matmul(torch::ones({2, 3})); }"
        )
        with self.assertRaisesRegex(ValueError, "^`lr` is -1\nhint: raise it$"):
            names["accelerate_error"]()
        with self.assertRaisesRegex(RuntimeError, r"^mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)$"):
            names["torch_error"]()

    def test_a_function_can_be_pickled_to_another_process(self):
        function = self.cell("int plus_one(int x) { return x + 1; }")["plus_one"]
        code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(41))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(function),
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(Path(cpp_magic.__file__).parents[1])},
            timeout=120,
        )
        self.assertEqual(done.stdout.strip(), b"42", done.stderr.decode())

    def test_a_program_is_launched_in_several_processes(self):
        code = (
            "int main() {\n  accelerate::PartialState state;\n"
            '  state.print("we are ", state.num_processes());\n  return 0;\n}'
        )
        output = self.output_of(code, ["--num_processes", "2", "--cpu"])
        self.assertIn("we are 2", output)

    def test_a_program_that_crashes_fails_its_cell(self):
        with self.assertRaisesRegex(cpp_magic.CppCompileError, "failed with exit code 134"):
            self.cell("int main() { std::abort(); }", "--run --num_processes 1 --cpu")

    def test_an_interrupt_stops_a_program_that_loops(self):
        script = (
            "import sys, _thread, threading, time\nfrom accelerate_cpp import cpp_magic\n"
            "code = 'int main() { std::cout << \"on\" << std::endl; while (true) {} }'\n"
            "class Out:\n"
            "    def write(self, text):\n"
            "        if 'on' in text: _thread.interrupt_main()\n"
            "    def flush(self): pass\n"
            "sys.stdout = Out()\n"
            "try:\n"
            "    cpp_magic.run(code, ['--num_processes', '1', '--cpu'])\n"
            "except KeyboardInterrupt:\n"
            "    sys.exit(7)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(Path(cpp_magic.__file__).parents[1])},
            timeout=200,
        )
        self.assertEqual(done.returncode, 7, done.stderr.decode())

    def output_of(self, code, options):
        import contextlib
        import io

        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self.assertEqual(cpp_magic.run(code, options), 0)
        return text.getvalue()


if __name__ == "__main__":
    unittest.main()
