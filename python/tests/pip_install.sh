#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs `pip install ./python` in an environment that only has torch: it must
# build the core, and a script must run with it.
#
#   python/tests/pip_install.sh <python that has torch>
set -euo pipefail

python=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "error: $*" >&2
  exit 1
}
# shellcheck source=python/tests/environment.sh
. "$here/environment.sh"
unset PYTHONPATH ACCELERATE_BUILD_DIR TORCH_DIR

# Without torch, the error names the version to install.
"$python" -m venv "$work/empty"
if text=$("$work/empty/bin/python" -m pip install --no-index "$root/python" 2>&1); then
  fail "the package was built without torch: $text"
fi
[[ $text == *"torch is not installed in this environment"*"pip install torch==2.11.0"* ]] ||
  fail "without torch pip printed: $text"

make_environment "$work/venv"
"$work/venv/bin/python" -m pip install --disable-pip-version-check --no-index "$root/python" \
  >"$work/log" 2>&1 || fail "pip install ./python failed: $(tail -n 40 "$work/log")"
cd "$work"
text=$("$work/venv/bin/accelerate-cpp" launch --cpu --num_processes 2 \
  "$root/examples/python/base.py" 2>&1) || fail "a script failed: $text"
grep -E '^accuracy (0\.9|1\.).* on 101 samples' <<<"$text" || fail "a script printed: $text"
echo "python: pip install ./python works"
