# SPDX-License-Identifier: Apache-2.0
"""Tests tools/setup.sh on a fake machine: nothing is installed or downloaded."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from fixture import TreeTest

HERE = Path(__file__).resolve().parent
SETUP = HERE.parent.parent / "tools/setup.sh"
FAKE = HERE / "fake_command.sh"
REAL = ("bash basename cat chmod cp dirname env flock getconf grep head ln mkdir mv "
        "rm sed seq sort touch uname").split()
LIBRARIES = ("nlohmann-json3-dev libcli11-dev libyaml-cpp-dev libssl-dev "
             "libutf8proc-dev libonig-dev libcurl4-openssl-dev libsqlite3-dev libxxhash-dev "
             "libgtest-dev libgmock-dev libbenchmark-dev libzmq3-dev")
FOR_TESTS = "libopenmpi-dev openmpi-bin clang-tools-19 libclang-rt-19-dev"
EVERYTHING = f"g++ cmake ninja-build python3-pip {LIBRARIES}"
APT = "apt-get install -y --no-install-recommends"
SIMULATE = "apt-get install --simulate"


class Setup(TreeTest):
    def setUp(self):
        super().setUp()
        self.machine = self.root / "machine"
        self.deps = self.root / "deps"
        (self.machine / "bin").mkdir(parents=True)
        for name in REAL:
            (self.machine / "bin" / name).symlink_to(shutil.which(name))
        self.give("apt-cache", "apt-get", "dpkg-query", "id", "python3")
        self.write("machine/installed")
        self.write("machine/user", "0\n")
        self.write("machine/pjrt", "pjrt\n")
        self.write("machine/os-release", "ID=debian\nVERSION_ID=12\n")

    def give(self, *commands):
        """Adds commands to the fake machine."""
        for name in commands:
            (self.machine / "bin" / name).symlink_to(FAKE)

    def run_setup(self, *arguments, **environment):
        self.write("machine/log")
        return subprocess.run(
            [shutil.which("bash"), SETUP, *arguments], text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
            env={"PATH": str(self.machine / "bin"), "MACHINE": str(self.machine),
                 "FAKE": str(FAKE), "SETUP": str(SETUP), "ACCELERATE_DEPS": str(self.deps),
                 "ACCELERATE_OS_RELEASE": str(self.machine / "os-release"),
                 "ACCELERATE_NVIDIA_DRIVER": str(self.machine / "nvidia"),
                 **environment})

    def calls(self, *programs):
        """Returns the calls of these programs in the last run, one string for
        each call."""
        lines = (self.machine / "log").read_text().splitlines()
        return [line for line in lines if line.split()[0] in programs]

    def downloads(self):
        return [line.split()[-1] for line in self.calls("python3") if "download" in line]

    def assert_works(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.deps / "python/torch/lib/libtorch_cpu.so").exists())

    def test_installs_what_is_missing_as_root(self):
        self.assert_works(self.run_setup("demo"))

        # The package lists are fetched only because the machine had no lists.
        self.assertEqual(
            self.calls("apt-get", "sudo"),
            [f"{SIMULATE} {EVERYTHING}", "apt-get update", f"{APT} {EVERYTHING}"])
        self.assertEqual(
            self.downloads(),
            ["torch==2.11.0", "nvidia-cuda-runtime==13.*", "nvidia-cuda-cupti==13.*",
             "xla-cpu-pjrt==0.0.1"])

    def test_leaves_no_wheel_behind(self):
        self.run_setup("demo")

        self.assertEqual(sorted(os.listdir(self.deps)), ["lock", "pjrt", "python"])

    def test_uses_sudo_when_it_is_installed(self):
        self.write("machine/user", "1000\n")
        self.write("machine/lists")
        self.give("sudo")

        self.assert_works(self.run_setup("demo"))

        self.assertEqual(
            self.calls("sudo"),
            [f"sudo -n env DEBIAN_FRONTEND=noninteractive {APT} {EVERYTHING}"])

    def test_prints_the_command_for_root_when_it_cannot_become_root(self):
        self.write("machine/user", "1000\n")

        result = self.run_setup("demo")

        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.splitlines(), [
            "error: these packages are missing, and installing them needs root "
            f"or sudo: {EVERYTHING}",
            "hint: run this command as root, then try again:",
            f"hint: apt-get update && {APT} {EVERYTHING}"])
        self.assertEqual(self.calls("apt-get"), [])

    def test_fails_when_there_is_no_apt(self):
        (self.machine / "bin/apt-get").unlink()

        result = self.run_setup("demo")

        self.assertEqual(result.returncode, 1)
        self.assertIn("this machine has no apt-get; these Debian packages are missing",
                      result.stderr)

    def test_does_nothing_the_second_time(self):
        self.run_setup("full")

        self.assert_works(self.run_setup("full"))

        self.assertEqual(self.calls("apt-get", "sudo", "python3"), [])

    def test_installs_the_cuda_libraries_when_asked(self):
        self.run_setup("demo")

        self.assert_works(self.run_setup("demo", CUDA="1"))

        self.assertIn("nvidia-nccl-cu13==2.28.9", self.downloads())
        for name in ("libcublas.so.13", "libnccl.so.2"):
            self.assertTrue((self.deps / "python/nvidia/cu13/lib" / name).exists())
        self.assert_works(self.run_setup("demo", CUDA="1"))
        self.assertEqual(self.calls("python3"), [])

    def test_installs_the_cuda_libraries_on_a_machine_with_a_gpu(self):
        self.write("machine/nvidia", "NVRM version\n")

        self.assert_works(self.run_setup("demo", CUDA="0"))
        self.assertNotIn("nvidia-nccl-cu13==2.28.9", self.downloads())

        self.assert_works(self.run_setup("demo"))
        self.assertIn("nvidia-nccl-cu13==2.28.9", self.downloads())

    def test_adds_what_only_the_tests_need(self):
        self.run_setup("demo")

        self.run_setup("full")

        self.assertEqual(
            self.calls("apt-get"),
            [f"{SIMULATE} {FOR_TESTS}", f"{APT} {FOR_TESTS}"])

    def test_looks_for_packages_again_after_fetching_the_lists(self):
        self.run_setup("full")

        self.assertEqual(
            self.calls("apt-get")[-1], f"{APT} {EVERYTHING} {FOR_TESTS}")

    def test_skips_clang_tools_when_the_distribution_does_not_have_them(self):
        self.write("machine/unknown", "clang-tools-19\n")

        self.assert_works(self.run_setup("full"))

        self.assertNotIn("clang-tools-19", self.calls("apt-get")[-1])
        self.assert_works(self.run_setup("full"))
        self.assertEqual(self.calls("apt-get", "sudo", "python3"), [])

    def test_installs_a_fuzzer_with_sanitizers(self):
        self.run_setup("demo")

        self.assert_works(self.run_setup("fuzz"))

        self.assertEqual(self.calls("apt-get")[-1], f"{APT} clang-19 libclang-rt-19-dev")
        self.run_setup("fuzz")
        self.assertEqual(self.calls("apt-get"), [])

    def test_installs_the_sanitizers_of_the_clang_that_is_installed(self):
        self.run_setup("demo")
        self.give("clang++-20")
        self.write("machine/clang/lib/linux/libclang_rt.fuzzer-x86_64.a")

        self.assert_works(self.run_setup("fuzz"))

        self.assertEqual(self.calls("apt-get")[-1], f"{APT} libclang-rt-20-dev")

    def test_prints_the_command_for_root_when_it_cannot_install_the_fuzzer(self):
        self.run_setup("demo")
        self.write("machine/user", "1000\n")

        result = self.run_setup("fuzz")

        self.assertEqual(result.returncode, 1)
        self.assertEqual(
            result.stderr.splitlines()[-1],
            f"hint: apt-get update && {APT} clang-19 libclang-rt-19-dev")

    def test_resumes_an_interrupted_download(self):
        self.write("machine/killed_in", "nvidia-cuda-cupti==13.*")
        self.assertEqual(self.run_setup("demo").returncode, -9)

        self.assert_works(self.run_setup("demo"))

        self.assertEqual(
            self.downloads(), ["nvidia-cuda-cupti==13.*", "xla-cpu-pjrt==0.0.1"])

    def test_resumes_an_interrupted_unpacking(self):
        self.write("deps/python.part/torch/lib/libtorch_cpu.so")

        self.assert_works(self.run_setup("demo"))

        self.assertFalse((self.deps / "python.part").exists())

    def test_removes_a_damaged_wheel_and_gets_it_again(self):
        self.write("deps/wheels/torch-2.11.0-cp312.whl", "damaged\n")

        result = self.run_setup("demo")

        self.assertEqual(result.returncode, 1)
        self.assertIn("is damaged and was removed", result.stderr)
        self.assert_works(self.run_setup("demo"))

    def test_refuses_a_pjrt_wheel_with_other_content(self):
        self.write("machine/pjrt", "tampered\n")

        result = self.run_setup("demo")

        self.assertEqual(result.returncode, 1)
        self.assertIn("is not the file that this script expects, and was removed",
                      result.stderr)
        self.assertFalse((self.deps / "pjrt").exists())
        self.write("machine/pjrt", "pjrt\n")
        self.assert_works(self.run_setup("demo"))
        self.assertTrue((self.deps / "pjrt/xla_plugins").exists())

    def test_leaves_pjrt_out_when_asked(self):
        self.assert_works(self.run_setup("demo", XLA="0"))

        self.assertNotIn("xla-cpu-pjrt==0.0.1", self.downloads())

    def test_replaces_another_version(self):
        self.write("deps/python/torch-2.9.0.dist-info/METADATA")
        self.write("deps/python/torch/lib/libtorch_cpu.so")

        self.assert_works(self.run_setup("demo"))

        self.assertTrue((self.deps / "python/torch-2.11.0.dist-info").exists())
        self.assertFalse((self.deps / "python/torch-2.9.0.dist-info").exists())

    def test_downloads_nothing_when_torch_dir_is_set(self):
        self.write("libtorch/lib/libtorch_cpu.so")

        result = self.run_setup("demo", TORCH_DIR=str(self.root / "libtorch"))

        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.downloads(), [])
        self.assertNotIn("python3-pip", (self.machine / "installed").read_text())

    def test_refuses_a_torch_dir_without_libtorch(self):
        result = self.run_setup("demo", TORCH_DIR="/nowhere")

        self.assertEqual(result.returncode, 1)
        self.assertIn("error: TORCH_DIR is `/nowhere`, which has no "
                      "lib/libtorch_cpu.so", result.stderr)

    def test_takes_cmake_from_pypi_on_ubuntu_22_04(self):
        self.write("machine/os-release", "ID=ubuntu\nVERSION_ID=22.04\n")
        self.write("machine/lists")

        self.assert_works(self.run_setup("demo"))

        self.assertEqual(
            self.calls("apt-get")[-1],
            f"{APT} g++-12 ninja-build python3-pip {LIBRARIES}")
        self.assertIn("cmake>=3.25,<4", self.downloads())
        self.assertTrue(os.access(self.deps / "bin/cmake", os.X_OK))

        self.run_setup("demo")
        self.assertEqual(self.calls("apt-get", "python3"), [])

    def test_installs_no_packages_when_asked_to_skip_them(self):
        self.give("cmake")
        self.write("machine/pip")

        self.assert_works(self.run_setup("demo", ACCELERATE_PACKAGES="skip"))

        self.assertEqual(self.calls("apt-get"), [])

    def test_lists_the_valid_package_sets(self):
        result = self.run_setup("half")

        self.assertEqual(result.returncode, 1)
        self.assertIn(
            "error: `half` is not a set of packages\nhint: use demo, full, fuzz or slurm",
            result.stderr)


if __name__ == "__main__":
    unittest.main()
