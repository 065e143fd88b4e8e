#!/bin/bash
# Prints bash's completions: complete.bash <word>...; the last word is the one
# being typed.
eval "$(accelerate completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_accelerate
printf '%s\n' "${COMPREPLY[@]}" | sort
