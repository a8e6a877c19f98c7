#!/usr/bin/env bash
# Loads the completion of zsh and fish in these shells and completes a few words. `npm test` needs neither of them: this command does.
# A shell that is not installed is skipped, and the last line says so. To install both: apt-get install zsh fish
set -euo pipefail
cd "$(dirname "$0")/.."
program=(node packages/bellwether/bin/bellwether.js)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
skipped=()

expect() {
  local shell=$1 typed=$2 wanted=$3 offered=$4
  if grep -q -- "$wanted" <<<"$offered"; then
    echo "$shell: \"$typed\" offers $wanted"
  else
    echo "$shell: \"$typed\" does not offer $wanted, but: $offered" >&2
    exit 1
  fi
}

if command -v fish >/dev/null; then
  "${program[@]}" completion fish >"$folder/bellwether.fish"
  offers() { fish --no-config -c "source '$folder/bellwether.fish'; complete -C '$1'"; }
  for pair in 'bellwether tas|task' 'bellwether task ad|add' 'bellwether task add --ver|--verify' 'bellwether completion |zsh'; do
    expect fish "${pair%|*}" "${pair#*|}" "$(offers "${pair%|*}")"
  done
else skipped+=(fish); fi

if command -v zsh >/dev/null; then
  "${program[@]}" completion zsh >"$folder/_bellwether"
  # A terminal of zsh's own: it types the words and Tab, and reads the line until the wanted text is in it.
  cat >"$folder/complete.zsh" <<'ZSH'
zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "PROMPT=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy"
zpty -r -m shell line '*ready*' || exit 1
zpty -w -n shell "$2"$'\t'
zpty -r -m shell line "*$3*" && print -r -- "$line"
zpty -d shell
ZSH
  for pair in 'bellwether tas|task' 'bellwether task ad|add' 'bellwether task add --ver|--verify' 'bellwether completion |zsh'; do
    offered=$(timeout 60 zsh -f "$folder/complete.zsh" "$folder" "${pair%|*}" "${pair#*|}") || true
    expect zsh "${pair%|*}" "${pair#*|}" "$offered"
  done
else skipped+=(zsh); fi

if ((${#skipped[@]} > 0)); then echo "skipped, because not installed: ${skipped[*]}"; fi
