#!/usr/bin/env zsh
# Prints zsh's completions: complete.zsh <line>. Types the line into an interactive
# shell whose `compadd` prints the matches.
zmodload zsh/zpty
zpty shell zsh -f -i
type_line() { zpty -w shell "$1"; }
read_until() {
  local chunk text="" i
  for ((i = 0; i < 2000; i++)); do
    if zpty -rt shell chunk; then text+=$chunk; else sleep 0.01; fi
    [[ $text == *$1* ]] && { REPLY=$text; return 0; }
  done
  print -u2 "no '$1' within 20 s, only: $text"
  exit 1
}
type_line 'stty -echo; PROMPT=; unset RPROMPT; print rea""dy-1'
read_until ready-1
type_line 'autoload -U compinit && compinit -u -D; eval "$(accelerate completion zsh)"'
type_line 'show_matches() {
  print begin-"matches"
  compadd() {
    local -a hits
    builtin compadd -A hits "$@"
    print -l -- $hits
    builtin compadd "$@"
  }
  _main_complete
  unfunction compadd
  print end-"matches"
}
zle -C show-matches complete-word show_matches; bindkey "^I" show-matches
print rea""dy-2'
read_until ready-2
zpty -w -n shell "$1"$'\t'
read_until end-matches
text=${REPLY##*begin-matches}
text=${text%%end-matches*}
print -r -- ${(F)${(f)${text//$'\r'/}}} | sed '/^$/d' | sort -u
zpty -d shell
