#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the scripts in tools/, which show that each check can fail.
#   tests/tools/run.sh [<name>_test.py]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=../../tools
python3 -m unittest discover -p "${1:-*_test.py}"
