# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For scripts that set `here` to this folder and `python` to a Python with torch.
#
# make_environment <folder> [module ...]: creates a virtual environment with
# only torch, numpy (torch warns without it), the modules and their
# dependencies. It links to the installed packages instead of downloading them.
make_environment() {
  local folder=$1 site from item
  shift
  "$python" -m venv "$folder"
  site=$(echo "$folder"/lib/python*/site-packages)
  from=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
  "$python" "$here/wheel_support.py" needs torch numpy "$@" | while read -r item; do
    [ -e "$site/$item" ] || ln -s "$from/$item" "$site/$item"
  done
}
