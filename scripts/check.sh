#!/usr/bin/env bash
# Static checks: types, format, lint, import arrows, dead code. All of them run even if one fails.
# --built: skips the type check, because the caller has just run `tsc -b`.
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
check 'dead code' knip --no-progress --no-config-hints

if ((${#broken[@]} > 0)); then
  printf -v names '%s, ' "${broken[@]}"
  echo "-- check: FAILED: ${names%, }" >&2
  exit 1
fi
echo '-- check: passed'
