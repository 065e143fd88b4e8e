# SPDX-License-Identifier: Apache-2.0
import shutil
import unittest
from pathlib import Path

import check_header_budget
from fixture import TreeTest

COMPILER = next(filter(None, map(
    shutil.which, ("g++", "g++-12", "g++-13", "clang++-19", "c++"))))


class CheckHeaderBudget(TreeTest):
    """Uses a fake LibTorch that consists of a few empty headers."""

    def setUp(self):
        super().setUp()
        for header in check_header_budget.LIGHT_BUDGET:
            self.write(f"torch/include/{header}")
        self.write("torch/include/ATen/core/TensorBase.h")
        self.write("torch/include/ATen/core/Tensor.h",
                   "#include <ATen/core/TensorBase.h>\n")
        self.write("torch/include/torch/optim/optimizer.h")
        self.write("torch/include/ATen/ATen.h")
        self.tensor_list = self.write("tensor_headers.txt", "")

    def check(self, text):
        self.write("include/accelerate/a.h", text)
        return check_header_budget.check(
            COMPILER, self.root, self.root / "torch", Path(self.tensor_list))

    def test_accepts_small_value_types_in_a_light_header(self):
        self.assert_findings(self.check("#include <c10/core/Device.h>\n"))

    def test_refuses_a_tensor_in_a_light_header(self):
        findings = self.check("#include <ATen/core/Tensor.h>\n")

        self.assertEqual(len(findings), 1)
        self.assertIn("accelerate/a.h is a light header but includes 2", findings[0])

    def test_accepts_tensors_in_a_header_on_the_list(self):
        self.tensor_list.write_text("accelerate/a.h  # holds a tensor\n")

        self.assert_findings(self.check("#include <ATen/core/Tensor.h>\n"))

    def test_refuses_all_of_aten_in_a_header_on_the_list(self):
        self.tensor_list.write_text("accelerate/a.h\n")

        findings = self.check("#include <ATen/ATen.h>\n")

        self.assertEqual(len(findings), 1)
        self.assertIn("is a tensor header but includes 1", findings[0])

    def test_finds_a_list_entry_that_does_not_exist(self):
        self.tensor_list.write_text("accelerate/missing.h\n")

        self.assert_findings(
            self.check(""),
            "tensor_headers.txt names accelerate/missing.h, which does not exist")

    def test_refuses_a_parser(self):
        self.write("include/nlohmann/json.hpp")

        findings = self.check("#include <nlohmann/json.hpp>\n")

        self.assertEqual(len(findings), 1)
        self.assertIn("accelerate/a.h includes ", findings[0])


if __name__ == "__main__":
    unittest.main()
