#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test that links LibTorch's CUDA. If there is no GPU, reports that the
# test was skipped, because the program cannot be loaded.
#
#     run_on_gpu.sh <program> [arguments]
if [ ! -e /dev/nvidiactl ]; then
  echo "skipped: there is no GPU"
  exit 77
fi
exec "$@"
