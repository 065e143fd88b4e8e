#!/usr/bin/env fish
# What fish offers for a line: complete.fish <line>.
accelerate completion fish | source
complete -C $argv[1] | string replace -r '\t.*' '' | sort
