/**
 * A small process that outlives the worker and its guardian, in case both are killed at once. It waits until the worker has ended and
 * the guardian had time to act; then it kills every process that is left with a token of this worker. It is a shell script, because it
 * must be small: nothing else runs in it while the worker lives.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { environment } from '@bellwether/base'
import { cgroupHome, cgroupPrefix } from './cgroup.js'
import { tokenName } from './token.js'

// The guardian lets commands end by themselves for at most 2 s.
const guardianSeconds = 4

const script = `trap '' TERM INT HUP
cat > /dev/null
sleep ${guardianSeconds}
tree() { for pid in "$@"; do echo "$pid"; tree $(cat /proc/$pid/task/*/children 2> /dev/null); done; }
quiet=0
rounds=0
while [ $quiet -lt 3 ] && [ $rounds -lt 100 ]; do
  found=$(grep -lszF "${tokenName}=$1" /proc/[0-9]*/environ | cut -d/ -f3)
  [ -z "$2" ] || found="$found $(cat "$2/${cgroupPrefix}$1"*/cgroup.procs 2> /dev/null)"
  quiet=$((quiet + 1))
  for pid in $(tree $found); do
    quiet=0
    kill -9 "-$pid" 2> /dev/null
    kill -9 "$pid" 2> /dev/null
  done
  rounds=$((rounds + 1))
  sleep 0.1
done
[ -z "$2" ] || rmdir "$2/${cgroupPrefix}$1"* 2> /dev/null
`

/** `tokens`: the beginning of all tokens of this worker. Undefined on systems without /proc. */
export function startWatcher(tokens: string): ChildProcess | undefined {
  if (!existsSync('/proc/self/environ')) return undefined
  const child = spawn('/bin/sh', ['-c', script, 'bellwether-watcher', tokens, cgroupHome() ?? ''], {
    // Its own session, so that signals to the worker's group do not reach it.
    detached: true,
    env: { PATH: environment()['PATH'] ?? '/usr/bin:/bin' },
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.stdin?.on('error', () => undefined) // EPIPE after it was killed; the next watch starts another
  child.unref()
  ;(child.stdin as { unref?: () => void } | null)?.unref?.()
  return child
}
