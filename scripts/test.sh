#!/usr/bin/env bash
# npm test: installs missing tools, builds, checks, runs every test and the strict conformance check, and ends with the line
# "N passed, N failed, N skipped". A failed step does not hide the next one; each counts as one failure in that line and in
# the exit code. Arguments go to vitest: npm test -- src/kernel
set -uo pipefail
cd "$(dirname "$0")/.."
# Debian installs servers in sbin, which is not on an ordinary user's PATH.
export PATH="$PWD/node_modules/.bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { echo "== $*"; }
die() {
  echo "!! $*" >&2
  echo '0 passed, 1 failed, 0 skipped'
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# Package mirrors sometimes fail or hang: try three times, each with a time limit.
retry() {
  local limit=$1 try
  shift
  for try in 1 2 3; do
    as_root timeout "$limit" "$@" && return 0
    echo "   try $try of 3 failed: $*" >&2
    sleep $((try * 2))
  done
  return 1
}

# need COMMAND PACKAGE: installs the Debian package if the command is missing.
need() {
  local command=$1 package=$2
  command -v "$command" >/dev/null && return 0
  can_install || die "$command is missing, and installing it needs root. Run: apt-get install $package"
  say "installing $package (for $command)"
  if [ -z "${apt_updated:-}" ]; then
    retry 180 apt-get -q -o Acquire::Retries=3 -o Acquire::http::Timeout=30 update || echo '   continuing with the old package lists' >&2
    apt_updated=yes
  fi
  retry 300 env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 \
    install --no-install-recommends "$package" || die "apt-get install $package failed"
  hash -r
  command -v "$command" >/dev/null || die "$package is installed, but $command is not on the PATH"
}

# want COMMAND PACKAGE USE: the same, once; the tests run without it.
want() {
  command -v "$1" >/dev/null && return 0
  say "installing $2 (for $1)"
  can_install && as_root timeout 120 env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$2" ||
    echo "!! continuing without $1: $3" >&2
}

say 'set-up'
command -v node >/dev/null || die 'Node 20 or newer is missing: https://nodejs.org'
node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' ||
  die "Node 20 or newer is needed, this is $(node --version)"
need flock util-linux
need nats-server nats-server
need chromium chromium
want bindfs bindfs 'the fuzz on several mounts uses one directory instead, where every host sees every change'
want bwrap bubblewrap 'the tests of the sandbox use unshare alone'
if [ ! -x node_modules/.bin/vitest ]; then
  say 'npm ci'
  npm ci || die 'npm ci failed'
fi

broken=()
say 'build'
# With BELLWETHER_TEST_BUILT the tests start programs from dist, which is faster than from source.
if npm run -s build; then export BELLWETHER_TEST_BUILT=1; else broken+=(build); fi
say 'check'
bash scripts/check.sh --built || broken+=(check)

say 'test'
results=.test-results/vitest.json
rm -rf .test-results
vitest run --reporter=default --reporter=json --outputFile.json="$results" "$@" || broken+=(test)

# A filtered run cannot prove every requirement.
if (($# == 0)); then
  say 'conformance'
  tsx scripts/conformance.ts --strict || broken+=(conformance)
fi

tsx scripts/tally.ts "$results" "${broken[@]}"
