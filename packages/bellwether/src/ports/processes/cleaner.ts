/**
 * Starts the cleaner: a process that kills the processes of a worker's turns if the worker and its guardian are killed together. It
 * waits until the worker has ended, gives the guardian time to act, and then stops and kills every process that still has a token of
 * this worker. It is a shell script, because it only waits while the worker runs and should use little memory.
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
stopped=
while [ $quiet -lt 3 ] && [ $rounds -lt 100 ]; do
  found=$(grep -lszF "${tokenName}=$1" /proc/[0-9]*/environ | cut -d/ -f3)
  [ -z "$2" ] || found="$found $(cat "$2/${cgroupPrefix}$1"*/cgroup.procs 2> /dev/null)"
  pids=$(tree $found)
  if [ -z "$pids" ]; then quiet=$((quiet + 1)); else quiet=0; fi
  if [ "$pids" = "$stopped" ]; then
    for pid in $pids; do kill -9 "-$pid" "$pid" 2> /dev/null; done
  else
    kill -STOP $pids 2> /dev/null
    stopped=$pids
  fi
  rounds=$((rounds + 1))
  sleep 0.1
done
[ -z "$2" ] || rmdir "$2/${cgroupPrefix}$1"* 2> /dev/null
`

/** `tokens`: the prefix of this worker's tokens, or one token. Returns undefined on systems without /proc. */
export function startCleaner(tokens: string): ChildProcess | undefined {
  if (!existsSync('/proc/self/environ')) return undefined
  const child = spawn('/bin/sh', ['-c', script, 'bellwether-cleaner', tokens, cgroupHome() ?? ''], {
    // Its own session, so that signals to the worker's group do not reach it.
    detached: true,
    env: { PATH: environment()['PATH'] ?? '/usr/bin:/bin' },
    cwd: '/',
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.stdin?.on('error', () => undefined) // EPIPE if it was killed; the exit event reports that
  child.unref()
  ;(child.stdin as { unref?: () => void } | null)?.unref?.()
  return child
}
