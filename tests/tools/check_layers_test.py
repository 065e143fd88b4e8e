# SPDX-License-Identifier: Apache-2.0
import unittest

import check_layers
import tree
from fixture import TreeTest


class CheckLayers(TreeTest):
    def check(self):
        return check_layers.check(self.root)

    def test_accepts_includes_that_point_downward(self):
        self.write("src/base/text.h")
        self.write("src/comm/group.cpp", '#include "base/text.h"\n')

        self.assert_findings(self.check())

    def test_names_file_line_and_layer_of_an_upward_include(self):
        self.write("src/base/text.cpp", '#include <string>\n#include "comm/group.h"\n')

        self.assert_findings(
            self.check(),
            "src/base/text.cpp:2: base may not include comm (comm/group.h)")

    def test_takes_a_public_header_for_the_layer_that_implements_it(self):
        self.write("include/accelerate/state.h")
        self.write("src/state/state.cpp", '#include "accelerate/state.h"\n')
        self.write("src/comm/group.cpp",
                   '#include "comm/group.h"\n#include "accelerate/state.h"\n')

        self.assert_findings(
            self.check(),
            "src/comm/group.cpp:2: comm may not include state (accelerate/state.h)")

    def test_looks_through_a_public_header_without_a_source(self):
        self.write("include/accelerate/state.h")
        self.write("include/accelerate/accelerate.h", '#include "accelerate/state.h"\n')
        self.write("src/state/state.cpp", '#include "accelerate/state.h"\n')
        self.write("src/base/text.cpp",
                   '#include "base/text.h"\n#include "accelerate/accelerate.h"\n')

        self.assert_findings(
            self.check(),
            "src/base/text.cpp:2: base may not include state "
            "(accelerate/accelerate.h)")

    def test_keeps_ranks_out_of_transformers(self):
        self.write("src/transformers/bert.cpp", '#include "state/state.h"\n')

        self.assert_findings(
            self.check(),
            "src/transformers/bert.cpp:1: transformers may not include state "
            "(state/state.h)")

    def test_keeps_libtorch_out_of_the_command_line_and_below(self):
        for name in ("cli/main.cpp", "src/launch/spawn.cpp"):
            self.write(name, "#include <ATen/core/Tensor.h>\n")

        self.assert_findings(
            self.check(),
            "cli/main.cpp:1: cli may not include LibTorch (ATen/core/Tensor.h)",
            "src/launch/spawn.cpp:1: launch may not include LibTorch "
            "(ATen/core/Tensor.h)")

    def test_restricts_the_heavy_headers(self):
        group = "torch/csrc/distributed/c10d/ProcessGroup.hpp"
        for header in (group, "torch/nn/module.h", "torch/torch.h"):
            self.write("src/state/a.cpp", f"#include <{header}>\n")
            findings = self.check()

            self.assertEqual(len(findings), 1, findings)
            self.assertIn(f"may include {header}", findings[0])

        self.write("src/state/a.cpp")
        self.write("src/comm/backends/b.cpp", f"#include <{group}>\n")
        self.write("examples/c.cpp", "#include <torch/torch.h>\n")
        self.assert_findings(self.check())

    def test_keeps_c10d_in_comm_and_cuda(self):
        for name in ("Backend", "Work", "ProcessGroupNCCL"):
            header = f"torch/csrc/distributed/c10d/{name}.hpp"
            self.write("src/parallel/a.cpp", f"#include <{header}>\n")
            findings = self.check()

            self.assertEqual(len(findings), 1, findings)
            self.assertIn(f"may include {header}", findings[0])

        self.write("src/parallel/a.cpp",
                   "#include <torch/csrc/distributed/c10d/Store.hpp>\n")
        self.assert_findings(self.check())

    def test_refuses_a_header_that_is_private_to_another_layer(self):
        self.write("src/comm/group_impl.h")
        self.write("src/comm/group_call.h")
        self.write("src/comm/group.cpp", '#include "comm/group_impl.h"\n')
        self.write("src/parallel/reducer.cpp",
                   '#include "comm/group_call.h"\n#include "comm/group_impl.h"\n')

        self.assert_findings(
            self.check(),
            "src/parallel/reducer.cpp:2: comm/group_impl.h is private to comm; use "
            "its interface (INTERFACES in tools/check_layers.py)")

    def test_names_an_interface_header_that_no_other_layer_includes(self):
        self.write("src/comm/group_call.h")

        self.assert_findings(
            self.check(),
            "src/comm/group_call.h: no other layer includes it; remove it from "
            "INTERFACES in tools/check_layers.py")

    def test_refuses_a_private_header_in_a_public_one(self):
        self.write("include/accelerate/a.h", '#include "base/text.h"\n')

        self.assert_findings(
            self.check(),
            "include/accelerate/a.h:1: a public header may not include a private "
            "one (base/text.h)")

    def test_refuses_a_folder_that_is_not_a_layer(self):
        self.write("src/utils/attic.cpp")

        self.assert_findings(
            self.check(),
            "src/utils/attic.cpp: src/utils is not a layer; add it to "
            "tools/check_layers.py")

    def test_finds_other_code_that_reads_the_environment(self):
        self.write("src/config/environment.cpp", 'auto a = getenv("A");\n')
        self.write("src/comm/a.cpp", '// getenv( is fine here\nstd::getenv("A");\n')

        self.assert_findings(
            self.check(),
            "src/comm/a.cpp:2: only config/environment may use `getenv(`")

    def test_finds_other_code_that_asks_for_cuda(self):
        self.write("src/device/a.cpp", "device.is_cuda();\n")
        self.write("src/optim/a.cpp", "// is_cuda() is fine here\nif (x.is_cuda()) {}\n")

        self.assert_findings(
            self.check(),
            "src/optim/a.cpp:2: only src/device may use `is_cuda()`")

    def test_keeps_a_costly_parser_in_one_source(self):
        self.write("src/base/json.h", "#include <nlohmann/json.hpp>\n")
        self.write("src/base/json.cpp", "#include <nlohmann/json.hpp>\n")

        self.assert_findings(
            self.check(),
            "src/base/json.h:1: no header may include nlohmann/json.hpp",
            "nlohmann is included by src/base/json.cpp, src/base/json.h: "
            "include it in one source only")

    def test_lists_only_layers_that_exist(self):
        for layer in check_layers.LAYERS.keys() - {"cli"}:
            self.assertTrue((tree.ROOT / "src" / layer).is_dir(), layer)


if __name__ == "__main__":
    unittest.main()
