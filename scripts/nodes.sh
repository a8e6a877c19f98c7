#!/usr/bin/env bash
# npm run nodes -- MAJOR...: runs the tests with other versions of Node (default: 22 and 24). npm has the programs as packages; they are
# installed below .nodes/. Arguments after -- go to npm test: npm run nodes -- 24 -- kernel
set -euo pipefail
cd "$(dirname "$0")/.."
majors=()
while (($# > 0)) && [ "$1" != -- ]; do
  majors+=("$1")
  shift
done
[ "${1:-}" != -- ] || shift
((${#majors[@]} > 0)) || majors=(22 24)
platform="node-linux-$(node -p process.arch)"
for major in "${majors[@]}"; do
  folder="$PWD/.nodes/$major"
  if [ ! -x "$folder/node_modules/$platform/bin/node" ]; then
    echo "== installing Node $major"
    npm install --prefix "$folder" --no-save --no-audit --no-fund --ignore-scripts "$platform@$major"
  fi
  echo "== Node $("$folder/node_modules/$platform/bin/node" --version)"
  PATH="$folder/node_modules/$platform/bin:$PATH" bash scripts/test.sh "$@"
done
