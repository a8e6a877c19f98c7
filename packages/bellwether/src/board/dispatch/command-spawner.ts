/**
 * A spawner without a house: a local command is the agent. The prompt comes on its stdin, the result is what it writes to
 * stdout. Always: a run has a folder of its own under state/runs, made by whoever comes first, so one key is one command; how
 * it ends is written down by the command's own shell, so a dispatcher that dies loses nothing; every run has a time limit.
 */
import { Terminal } from '@bellwether/protocol'
import { join } from 'node:path'
import type { Clock, Log } from '@bellwether/base'
import { z } from 'zod'
import type { Disk } from '../../ports/disk/disk.js'
import type { Machine } from '../../ports/disk/machine.js'
import type { Ids } from '../../ports/ids.js'
import { signalGroup } from '../../ports/processes/signal-group.js'
import { runCommand } from '../../ports/processes/run-command.js'
import { parseResult } from './parse-result.js'
import type { Spawner, SpawnRequest, TurnStatus } from '../ports.js'

export interface CommandSpawnerOptions {
  readonly root: string
  readonly command: string
  /** At most this long, also where the budget would allow more. */
  readonly timeoutMs: number
  /** Names of environment variables that the command may see beside the usual few. */
  readonly environment: readonly string[]
  readonly disk: Disk
  readonly machine: Machine
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
}

export const runsFolder = 'state/runs'
const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/
const answerMaxBytes = 2 ** 20
const errorsMaxBytes = 2 ** 14
const fileMaxBytes = 2 ** 21

// $1 the run's folder, $2 the command. Output beyond the bound is dropped and the writer told by SIGPIPE; of stderr the end
// is kept. The exit code is written under another name first: who sees `code` sees all of it.
const script = `
dir=$1
echo $$ > "$dir/pid" || exit 70
{ {
  sh -c "$2" < "$dir/prompt.md"
  echo $? > "$dir/code.draft"
} 2>&3 | head -c ${answerMaxBytes} > "$dir/output"; } 3>&1 | tail -c ${errorsMaxBytes} > "$dir/errors"
mv "$dir/code.draft" "$dir/code"
`

const requestShape = z.object({
  agent: z.string(),
  starter: z.object({ host: z.string(), pid: z.number(), startMark: z.string().optional() }),
  timeoutMs: z.number(),
})
const resultShape = z.object({
  outcome: z.enum(['success', 'failed', 'timeout', 'canceled']),
  error: z.string().nullable(),
  elapsedMs: z.number(),
})
type Result = z.output<typeof resultShape>

export function commandSpawner(options: CommandSpawnerOptions): Spawner {
  const { root, disk, machine, clock, ids } = options
  const folderOf = (key: string): string => {
    if (keyPattern.test(key)) return join(root, runsFolder, key)
    throw new Terminal(`${JSON.stringify(key)} cannot be the key of a run`, { code: 'bad_key' })
  }
  const here = new Map<string, { readonly stop: AbortController; readonly done: Promise<void> }>()

  async function text(key: string, name: string): Promise<string | null> {
    const read = await disk.read(join(folderOf(key), name), fileMaxBytes)
    return read.found === 'bytes' ? read.bytes.toString('utf8') : null
  }

  async function json<T>(key: string, name: string, shape: z.ZodType<T>): Promise<T | null> {
    const found = await text(key, name)
    if (found === null) return null
    try {
      return shape.safeParse(JSON.parse(found)).data ?? null
    } catch (error) {
      if (error instanceof SyntaxError) return null
      throw error
    }
  }

  async function keepResult(key: string, result: Result): Promise<void> {
    const folder = folderOf(key)
    const draft = join(folder, `result.${ids.next()}.draft`)
    await disk.createExclusive(join(folder, 'result.json'), draft, Buffer.from(JSON.stringify(result)))
  }

  async function run(request: SpawnRequest, timeoutMs: number, stop: AbortSignal): Promise<void> {
    const ran = await runCommand(
      {
        command: ['/bin/sh', '-c', script, 'agent', join(runsFolder, request.key), options.command],
        root,
        timeoutMs,
        environment: options.environment,
        signal: stop,
      },
      { clock, ids },
    )
    const elapsedMs = Math.ceil(ran.durationMs)
    const code = (await text(request.key, 'code'))?.trim()
    if (code !== undefined) return keepResult(request.key, { ...ofCode(code), elapsedMs })
    const called = stop.aborted ? String(stop.reason) : null
    await keepResult(request.key, {
      outcome: called !== null ? 'canceled' : ran.timedOut ? 'timeout' : 'failed',
      error:
        called ?? (ran.timedOut ? `it took longer than ${timeoutMs} ms` : (ran.failure ?? 'it ended without a word')),
      elapsedMs,
    })
  }

  async function status(key: string): Promise<TurnStatus> {
    const request = await json(key, 'request.json', requestShape)
    if (request === null) return { status: 'unknown' }
    const result = (await json(key, 'result.json', resultShape)) ?? (here.has(key) ? null : await orphan(key, request))
    if (result === null) return { status: 'active', agentTurnId: key }
    const answer = parseResult(await text(key, 'output'))
    const errors = (await text(key, 'errors'))?.trim() ?? ''
    const error = result.error === null ? null : [result.error, errors].filter((part) => part !== '').join(': ')
    return { status: 'ended', agentTurnId: key, ...result, error, ...answer }
  }

  /** Somebody else started it. Null: it is still going on, with or without them. */
  async function orphan(key: string, request: z.output<typeof requestShape>): Promise<Result | null> {
    const code = (await text(key, 'code'))?.trim()
    const began = await disk.stat(join(folderOf(key), 'request.json'))
    const sinceMs = began === 'missing' ? clock.wallMs() : began.changedAtMs
    if (code !== undefined) {
      const ended = await disk.stat(join(folderOf(key), 'code'))
      const elapsedMs = ended === 'missing' ? 0 : Math.max(0, Math.ceil(ended.changedAtMs - sinceMs))
      return { ...ofCode(code), elapsedMs }
    }
    const { starter } = request
    if (starter.host !== machine.host) return null
    const alive = machine.process(starter.pid)
    if (alive.alive && (starter.startMark === undefined || alive.startMark === starter.startMark)) return null
    if ((await leaderOf(key)) !== null) return null
    const elapsedMs = Math.max(0, Math.ceil(clock.wallMs() - sinceMs))
    return { outcome: 'failed', error: 'its dispatcher ended, and so did the command', elapsedMs }
  }

  /** The command's process group, if it is alive and no other program's that got its number. */
  async function leaderOf(key: string): Promise<number | null> {
    const path = join(folderOf(key), 'pid')
    const written = await disk.stat(path)
    const pid = Number((await text(key, 'pid'))?.trim() ?? Number.NaN)
    if (written === 'missing' || !Number.isSafeInteger(pid)) return null
    const { alive, startedAtMs } = machine.process(pid)
    // It wrote its number just after its start; whatever started later has only inherited the number.
    const another = startedAtMs !== undefined && startedAtMs > written.changedAtMs + 2_000
    return alive && !another ? pid : null
  }

  return {
    async kernel() {
      const runs = join(root, runsFolder)
      await disk.makeFolder(runs)
      const folder = await disk.stat(runs)
      // The folder is what remembers: one that was made anew knows nothing of the runs of the old one.
      if (folder === 'missing') return null
      return {
        id: `runs:${machine.host}:${folder.identity}`,
        nowMs: clock.wallMs(),
        retentionMs: Number.POSITIVE_INFINITY,
      }
    },
    async spawn(request) {
      const { key, agent } = request
      const folder = folderOf(key)
      const timeoutMs = Math.max(
        1,
        Math.min(options.timeoutMs, request.budget.maxWallTimeMs ?? Number.POSITIVE_INFINITY),
      )
      await disk.makeFolder(folder)
      const draft = join(folder, `prompt.${ids.next()}.draft`)
      await disk.writeDraft(draft, [request.prompt])
      await disk.replace(join(folder, 'prompt.md'), draft)
      const { pid, host } = machine
      const { startMark } = machine.process(pid)
      const starter = { host, pid, ...(startMark === undefined ? {} : { startMark }) }
      const words = Buffer.from(
        JSON.stringify({ agent, taskId: request.taskId, starter, timeoutMs, command: options.command }),
      )
      const made = await disk.createExclusive(
        join(folder, 'request.json'),
        join(folder, `request.${ids.next()}.draft`),
        words,
      )
      if (made === 'taken') return { agentTurnId: key }
      const stop = new AbortController()
      const done = run(request, timeoutMs, stop.signal)
        .catch((error: unknown) =>
          options.log.error({ err: error, key }, 'the end of a command could not be written down'),
        )
        .finally(() => here.delete(key))
      here.set(key, { stop, done })
      return { agentTurnId: key }
    },
    status,
    async ended(key, signal) {
      const going = here.get(key)
      if (going !== undefined && !signal.aborted) {
        await Promise.race([
          going.done,
          new Promise((letGo) => signal.addEventListener('abort', letGo, { once: true })),
        ])
      }
      for (;;) {
        const now = await status(key)
        if (now.status !== 'active' || signal.aborted) return now
        // Another process's run: nobody rings here when it ends.
        await clock.sleep(500, signal)
      }
    },
    async stop(key, reason) {
      const going = here.get(key)
      if (going !== undefined) {
        going.stop.abort(reason)
        await going.done
        return
      }
      if ((await status(key)).status !== 'active') return
      const leader = await leaderOf(key)
      if (leader !== null) signalGroup(leader, 'SIGKILL')
      await keepResult(key, { outcome: 'canceled', error: reason, elapsedMs: 0 })
    },
  }
}

function ofCode(code: string): Pick<Result, 'outcome' | 'error'> {
  return code === '0' ? { outcome: 'success', error: null } : { outcome: 'failed', error: `it ended with ${code}` }
}
