#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs all checks that need no build. Fails if any of them fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

check_shell() {
  if ! command -v shellcheck >/dev/null; then
    echo "shell: not checked, shellcheck is not installed"
    return
  fi
  git ls-files -coz --exclude-standard '*.sh' .ci/run |
    xargs -0 shellcheck && echo "shell: ok"
}

failed=0
check_shell || failed=1
for check in tools/format.sh tools/check_layers.py tools/check_tree.py \
  tools/check_tutorials.py tools/check_vocabulary.py tools/check_file_size.py \
  tests/tools/run.sh; do
  "$check" || failed=1
done
exit $failed
