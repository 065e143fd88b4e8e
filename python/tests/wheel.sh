#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the wheel into an environment that only has torch and uses it as a
# notebook service would: Python and C++ programs without the build folder, the
# C++ libraries with CMake, notebooks, and next to Hugging Face Accelerate.
#
#   python/tests/wheel.sh <wheel> <python that has torch>
set -euo pipefail

wheel=$(realpath "$1")
python=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "error: $*" >&2
  exit 1
}

# The wheel must require only torch and run on any Linux with that C library.
metadata=$("$python" "$here/wheel_support.py" metadata "$wheel")
requires=$(grep '^Requires-Dist:' <<<"$metadata" | grep -v extra)
[ "$requires" = 'Requires-Dist: torch==2.11.*' ] || fail "the wheel requires: $requires"
[[ $wheel == *-manylinux_2_[0-9][0-9]_*.whl ]] || fail "$wheel is not a manylinux wheel"
tag=$(grep -o 'manylinux_2_[0-9]*_[a-z0-9_]*' <<<"$(basename "$wheel" .whl)")
policy=$("$python" "$here/wheel_support.py" policy "$wheel")
[ "$policy" = "$tag" ] || fail "the tag of the wheel is $tag, but auditwheel computes $policy"

# shellcheck source=python/tests/environment.sh
. "$here/environment.sh"
make_environment "$work/venv"
site=$(echo "$work"/venv/lib/python*/site-packages)
pip=("$work/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install --no-index "$wheel"
"${pip[@]}" check

cmake=$(command -v cmake)
unset PYTHONPATH
export HOME=$work/home PATH=$work/venv/bin:/usr/bin:/bin OMP_NUM_THREADS=1
mkdir "$HOME"
cd "$work"
for file in "$site"/accelerate_cpp/_core*.so "$site"/accelerate_cpp/lib/*.so* \
  "$site"/accelerate_cpp/bin/*; do
  if readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -E '\[/|:/'; then
    fail "$file looks for libraries at a fixed path"
  fi
done

launch=(accelerate launch --cpu --num_processes 2)
expect() {
  local pattern=$1 text
  shift
  text=$("$@" 2>&1) || fail "$* failed: $text"
  grep -E "$pattern" <<<"$text" || fail "$* printed: $text"
}
expect '^accuracy (0\.9|1\.).* on 101 samples' "${launch[@]}" "$here/../../examples/python/base.py"
cat >train.cpp <<'CPP'
#include <accelerate/accelerate.h>
int main() {
  accelerate::Accelerator accelerator;
  accelerator.print("C++ on ", accelerator.num_processes());
}
CPP
expect '^C\+\+ on 2' "${launch[@]}" train.cpp
expect . accelerate-cpp --version
expect '^Usage: accelerate launch' python -m accelerate_cpp.launch --help

# Without a compiler, the error says so.
mkdir "$work/bare"
ln -s "$work/venv/bin/python" "$work/venv/bin/accelerate-cpp" "$(command -v env)" "$work/bare/"
echo '// another' >>train.cpp
if text=$(PATH=$work/bare accelerate-cpp launch --cpu train.cpp 2>&1); then
  fail "a source was compiled without a compiler: $text"
fi
[[ $text == *"cannot run the compiler g++: No such file"*"hint: install the compiler"* ]] ||
  fail "without a compiler the command printed: $text"

# A user's CMake project with the libraries, headers and the CMake package.
build_consumer() {
  "$cmake" -S "$here/../../tests/consumer/installed" -B consumer -G Ninja \
    -DCMAKE_PREFIX_PATH="$site/accelerate_cpp" && "$cmake" --build consumer
}
build_consumer >consumer.log 2>&1 || fail "a CMake project does not build: $(tail -n 30 consumer.log)"
[ "$(consumer/consumer)" = "caught on cpu" ] || fail "a CMake project does not run"

# Notebooks: the kernel starts with the libraries in the wheel.
accelerate jupyter install --prefix "$work/jupyter" 2>/dev/null
kernel=$site/accelerate_cpp/bin/accelerate-jupyter-kernel
grep -q "$kernel" "$work/jupyter/share/jupyter/kernels/accelerate-cpp/kernel.json" ||
  fail "the installed notebook kernel is not the kernel in the wheel"
if ldd "$kernel" | grep -v "$site" | grep -E 'not found|zmq|sodium|krb5'; then
  fail "the notebook kernel needs libraries of this machine"
fi
status=0
"$kernel" /dev/null 2>/dev/null || status=$?
[ "$status" = 2 ] || fail "the notebook kernel does not start: exit code $status"

# Only notebook_launcher needs cloudpickle; without it the error says so.
cat >notebook.py <<'PY'
from accelerate_cpp import errors, notebook_launcher
try:
    print(notebook_launcher(lambda: 42, num_processes=2))
except errors.UnsupportedError as error:
    print(error)
PY
expect 'run .pip install cloudpickle' python notebook.py
make_environment "$work/venv" cloudpickle
expect '^42$' python notebook.py

# With Hugging Face Accelerate, installed in either order, `accelerate` is its
# command and `accelerate-cpp` is ours.
hugging_face=$("$python" "$here/wheel_support.py" hugging_face "$work")
for order in "$wheel $hugging_face" "$hugging_face $wheel"; do
  "${pip[@]}" uninstall -y accelerate accelerate-cpp
  for package in $order; do
    "${pip[@]}" install --no-index --no-deps --force-reinstall "$package"
  done
  [ "$(accelerate)" = "Hugging Face Accelerate" ] ||
    fail "accelerate is not the command of Hugging Face Accelerate after installing $order"
  accelerate-cpp --version >/dev/null || fail "accelerate-cpp does not run after installing $order"
done
# After uninstalling it and reinstalling the wheel, as the guide says,
# `accelerate` is our command again.
"${pip[@]}" uninstall -y accelerate
"${pip[@]}" install --no-index --no-deps --force-reinstall "$wheel"
expect '^Usage: accelerate' accelerate --help
echo "python: the wheel works in a new environment"
