#!/usr/bin/env fish
# Prints fish's completions: complete.fish <line>.
accelerate completion fish | source
complete -C $argv[1] | string replace -r '\t.*' '' | sort
