#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests the Python package of a build folder.
#
#   tools/test_python.sh <build folder> smoke   what fits into every CI run
#   tools/test_python.sh <build folder> full    all of it, and the wheel
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$(realpath "$1")
kind=$2
python=$(tools/python_env.sh)
make --no-print-directory python PRESET="${PRESET:-gcc}" PYTHON="$python"

# A name after the file picks one class of it.
tests=("test_accelerator" "test_processes Tutorial" "test_notebook Launching")
if [ "$kind" = full ]; then
  tests=(test_accelerator test_processes test_notebook test_cpp test_leaks
    test_gpu test_cpp_functions test_cpp_magic)
fi
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
for words in "${tests[@]}"; do
  read -r name class <<<"$words"
  echo "python: $words"
  timeout 900 "$python" -W error::ResourceWarning "python/tests/$name.py" ${class:+"$class"}
done
if [ "$kind" = full ]; then
  make --no-print-directory wheel PRESET="${PRESET:-gcc}" PYTHON="$python"
  python/tests/wheel.sh "$build"/dist/accelerate_cpp-*.whl "$python"
  echo "python: test_tutorial"
  timeout 2400 "$python" python/tests/test_tutorial.py
fi
echo "python: all tests passed"
