#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gloo_object.sh <objects of src/comm>...
#
# gloo_backend.cpp is compiled against stubs of Gloo's headers. This is safe
# only if the object file contains no virtual table or type information of a
# Gloo class, which could replace the definition in LibTorch.
set -eu
for object in "$@"; do
  case $object in *gloo_backend.cpp.o) found=$object ;; esac
done
symbols=$(nm -C "${found:?the arguments do not contain gloo_backend.cpp.o}")
case $symbols in
  *make_gloo_backend*) ;;
  *) echo "error: $found does not define make_gloo_backend"; exit 1 ;;
esac
if printf '%s\n' "$symbols" | grep -E ' [VvWwDdRrBb] .*(vtable|typeinfo|VTT).*[Gg]loo'; then
  echo "error: $found contains the Gloo symbols above; see src/comm/backends/gloo_backend.cpp"
  exit 1
fi
