#!/usr/bin/env bash
# Everything that reads the code without running it: types, format, lint, import arrows, dead code.
# All checks run even when one fails, so that one round shows all there is to mend.
# --built: the caller has just run `tsc -b`, which is the type check.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/node_modules/.bin:$PATH"

broken=()
check() {
  local name=$1
  shift
  echo "-- check: $name"
  "$@" || broken+=("$name")
}

[ "${1:-}" = --built ] || check types tsc -b
check format oxfmt --check .
check lint oxlint --type-aware --deny-warnings --report-unused-disable-directives packages scripts vitest.config.ts
check arrows tsx scripts/arrows.ts
if [ -e packages/bellwether/src/cli/main.ts ]; then
  check 'dead code' knip --no-progress --no-config-hints
else
  echo '-- check: dead code: not yet, the product has no entry point (src/cli/main.ts) to judge from'
fi

if ((${#broken[@]} > 0)); then
  printf -v names '%s, ' "${broken[@]}"
  echo "-- check: FAILED: ${names%, }" >&2
  exit 1
fi
echo '-- check: all good'
