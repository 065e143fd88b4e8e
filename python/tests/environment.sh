# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For scripts that set `here`, this folder, and `python`, one that has torch.
#
# make_environment <folder> [module ...]: an environment of its own with torch,
# numpy, without which torch complains, the modules and what they need, nothing
# else. They are not downloaded again: links stand for an installation of them.
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
