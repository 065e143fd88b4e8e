#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests the Python package in a build folder.
#
#   tools/test_python.sh <build folder> smoke   a quick part, for every CI run
#   tools/test_python.sh <build folder> full    all tests, and the wheel
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$(realpath "$1")
kind=$2
extras=()
if [ "$kind" = full ]; then extras=(browser); fi
python=$(tools/python_env.sh "${extras[@]}")
make --no-print-directory python PRESET="${PRESET:-gcc}" PYTHON="$python"

# A name after the file selects one test class.
tests=("test_names" "test_services" "test_objects" "test_accelerator" "test_processes Tutorial" "test_notebook Launching")
if [ "$kind" = full ]; then
  tests=()
  for file in python/tests/test_*.py; do
    case $(basename "$file" .py) in
      test_tutorial* | test_jupyterlab) ;; # slow, run below
      *) tests+=("$(basename "$file" .py)") ;;
    esac
  done
fi
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
# As in the presets of ctest; see docs/concepts/libtorch.md.
export ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16
# C++ notebooks use the kernel of this build.
export ACCELERATE_BIN=$build/bin
for test in "${tests[@]}"; do
  read -r name class <<<"$test"
  echo "python: $test"
  timeout 900 "$python" -W error::ResourceWarning "python/tests/$name.py" ${class:+"$class"}
done
if [ "$kind" = full ]; then
  make --no-print-directory wheel PRESET="${PRESET:-gcc}" PYTHON="$python"
  python/tests/wheel.sh "$build"/dist/accelerate_cpp-*.whl "$python"
  python/tests/pip_install.sh "$python"
  slow=(test_tutorial)
  if command -v clang-repl-19 >/dev/null; then
    slow+=(test_tutorial_cpp)
  else
    echo "python: test_tutorial_cpp is skipped, clang-repl-19 is not installed"
  fi
  for name in "${slow[@]}" test_jupyterlab; do
    echo "python: $name"
    timeout 2400 "$python" "python/tests/$name.py"
  done
fi
echo "python: all tests passed"
