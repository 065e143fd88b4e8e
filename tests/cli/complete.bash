#!/bin/bash
# What bash offers for a line: complete.bash <word>...; the last one is what is
# being typed.
eval "$(accelerate completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_accelerate
printf '%s\n' "${COMPREPLY[@]}" | sort
