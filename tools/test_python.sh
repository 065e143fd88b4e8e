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
with=()
if [ "$kind" = full ]; then with=(browser); fi
python=$(tools/python_env.sh "${with[@]}")
make --no-print-directory python PRESET="${PRESET:-gcc}" PYTHON="$python"

# A name after the file picks one class of it.
tests=("test_names" "test_accelerator" "test_processes Tutorial" "test_notebook Launching")
if [ "$kind" = full ]; then
  tests=()
  for file in python/tests/test_*.py; do
    case $(basename "$file" .py) in
      test_tutorial* | test_jupyterlab) ;; # the long ones, below
      *) tests+=("$(basename "$file" .py)") ;;
    esac
  done
fi
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
# The kernel of C++ notebooks is that of this build.
export ACCELERATE_BIN=$build/bin
for words in "${tests[@]}"; do
  read -r name class <<<"$words"
  echo "python: $words"
  timeout 900 "$python" -W error::ResourceWarning "python/tests/$name.py" ${class:+"$class"}
done
if [ "$kind" = full ]; then
  make --no-print-directory wheel PRESET="${PRESET:-gcc}" PYTHON="$python"
  python/tests/wheel.sh "$build"/dist/accelerate_cpp-*.whl "$python"
  python/tests/pip_install.sh "$python"
  long=(test_tutorial)
  if command -v clang-repl-19 >/dev/null; then
    long+=(test_tutorial_cpp)
  else
    echo "python: test_tutorial_cpp is left out, there is no clang-repl-19 here"
  fi
  for name in "${long[@]}" test_jupyterlab; do
    echo "python: $name"
    timeout 2400 "$python" "python/tests/$name.py"
  done
fi
echo "python: all tests passed"
