/**
 * A spawner that runs a local command as the agent, without a server: the prompt on stdin, the result on stdout. Each run has
 * a folder under state/runs that is created exclusively, so one key runs one command. The command's own shell records its exit
 * code, so nothing is lost if the dispatcher dies. Every run has a time limit.
 */
import { budgetExceeded, budgetKeys, Terminal } from '@bellwether/protocol'
import { join } from 'node:path'
import { type Clock, defined, type Log, onAbort, parseJson } from '@bellwether/base'
import { z } from 'zod'
import type { Disk } from '../../ports/disk/disk.js'
import type { Machine } from '../../ports/disk/machine.js'
import type { Ids } from '../../ports/ids.js'
import { signalTo } from '../../ports/processes/kill-tree.js'
import { runCommand } from '../../ports/processes/run-command.js'
import { parseResult } from './parse-result.js'
import type { Spawner, SpawnRequest, TurnStatus } from '../ports.js'

export interface CommandSpawnerOptions {
  readonly root: string
  readonly command: string
  /** The time limit of a run, even if the budget allows more. */
  readonly timeoutMs: number
  /** Additional environment variables that the command may see. */
  readonly environment: readonly string[]
  readonly disk: Disk
  readonly machine: Machine
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
}

export const runsFolder = 'state/runs'
const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/
const outputMaxBytes = 2 ** 20
const errorsMaxBytes = 2 ** 14
const fileMaxBytes = 2 ** 21

// $1: folder of the run, $2: command. Output beyond the limit is dropped and the writer gets SIGPIPE; of stderr the end is
// stored. The exit code is renamed into place: a reader that sees `code` sees all of it.
const script = `
dir=$1
echo $$ > "$dir/pid" || exit 70
{ {
  sh -c "$2" < "$dir/prompt.md"
  echo $? > "$dir/code.draft"
} 2>&3 | head -c ${outputMaxBytes} > "$dir/output"; } 3>&1 | tail -c ${errorsMaxBytes} > "$dir/errors"
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
  exceededKeys: z.array(z.enum(budgetKeys)).optional(),
  elapsedMs: z.number(),
})
type Result = z.output<typeof resultShape>

export function commandSpawner(options: CommandSpawnerOptions): Spawner {
  const { root, disk, machine, clock, ids } = options
  const folderOf = (key: string): string => {
    if (keyPattern.test(key)) return join(root, runsFolder, key)
    throw new Terminal(`Cannot use ${JSON.stringify(key)} as the key of a run.`, { code: 'bad_key' })
  }
  const here = new Map<string, { readonly stop: AbortController; readonly done: Promise<void> }>()

  async function text(key: string, name: string): Promise<string | null> {
    const read = await disk.read(join(folderOf(key), name), fileMaxBytes)
    return read.found === 'bytes' ? read.bytes.toString('utf8') : null
  }

  async function json<T>(key: string, name: string, shape: z.ZodType<T>): Promise<T | null> {
    return shape.safeParse(parseJson((await text(key, name)) ?? '')).data ?? null
  }

  async function saveResult(key: string, result: Result): Promise<void> {
    const folder = folderOf(key)
    const draft = join(folder, `result.${ids.next()}.draft`)
    await disk.createExclusive(join(folder, 'result.json'), draft, Buffer.from(JSON.stringify(result)))
  }

  /** `byBudget`: the time limit is the rest of the task's budget. */
  async function run(request: SpawnRequest, timeoutMs: number, byBudget: boolean, stop: AbortSignal): Promise<void> {
    const ran = await runCommand(
      {
        command: [
          ...(request.degrade.length > 0 ? ['env', `BELLWETHER_DEGRADE=${request.degrade.join(',')}`] : []),
          ...['/bin/sh', '-c', script, 'agent', join(root, runsFolder, request.key), options.command],
        ],
        root: request.worktree?.root ?? root,
        timeoutMs,
        environment: options.environment,
        signal: stop,
      },
      { clock, ids },
    )
    const elapsedMs = Math.ceil(ran.durationMs)
    const code = (await text(request.key, 'code'))?.trim()
    if (code !== undefined) return saveResult(request.key, { ...ofCode(code), elapsedMs })
    const stopReason = stop.aborted ? String(stop.reason) : null
    if (stopReason === null && ran.timedOut && byBudget)
      return saveResult(request.key, { outcome: 'failed', error: budgetExceeded, exceededKeys: ['wall_ms'], elapsedMs })
    await saveResult(request.key, {
      outcome: stopReason !== null ? 'canceled' : ran.timedOut ? 'timeout' : 'failed',
      error:
        stopReason ??
        (ran.timedOut
          ? `the command took longer than ${timeoutMs} ms`
          : (ran.failure ?? 'the command ended without an exit code')),
      elapsedMs,
    })
  }

  async function status(key: string): Promise<TurnStatus> {
    const request = await json(key, 'request.json', requestShape)
    if (request === null) return { status: 'unknown' }
    const result = (await json(key, 'result.json', resultShape)) ?? (here.has(key) ? null : await orphan(key, request))
    if (result === null) return { status: 'active', agentTurnId: key }
    const parsed = parseResult(await text(key, 'output'))
    const errors = (await text(key, 'errors'))?.trim() ?? ''
    const { error: code, exceededKeys, ...rest } = result
    const error =
      code === null || code === budgetExceeded ? code : [code, errors].filter((part) => part !== '').join(': ')
    return { status: 'ended', agentTurnId: key, ...rest, error, ...defined({ exceededKeys }), ...parsed }
  }

  /** A run that another process started. Null: its command is still running. */
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
    return { outcome: 'failed', error: 'its dispatcher and the command died', elapsedMs }
  }

  /** The process group of the command; null: it is dead, or another program has its pid. */
  async function leaderOf(key: string): Promise<number | null> {
    const path = join(folderOf(key), 'pid')
    const written = await disk.stat(path)
    const pid = Number((await text(key, 'pid'))?.trim() ?? Number.NaN)
    if (written === 'missing' || !Number.isSafeInteger(pid)) return null
    const { alive, startedAtMs } = machine.process(pid)
    // The command wrote its pid right after its start: a process that started later has reused the pid.
    const isReused = startedAtMs !== undefined && startedAtMs > written.changedAtMs + 2_000
    return alive && !isReused ? pid : null
  }

  return {
    // One command runs as every agent.
    missingAgents: async () => [],
    hasAgents: async () => true,
    workspaceOf: async () => ({}),
    async kernel() {
      const runs = join(root, runsFolder)
      await disk.makeFolder(runs)
      const folder = await disk.stat(runs)
      // The folder is the memory: a folder that was created again does not know the runs of the old one.
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
      const { limits, used } = request.purse
      const budgetMs = limits.wallTimeMs === null ? Number.POSITIVE_INFINITY : limits.wallTimeMs - used.wallTimeMs
      const timeoutMs = Math.max(1, Math.min(options.timeoutMs, budgetMs))
      await disk.makeFolder(folder)
      const draft = join(folder, `prompt.${ids.next()}.draft`)
      await disk.writeDraft(draft, [request.prompt])
      await disk.replace(join(folder, 'prompt.md'), draft)
      const { pid, host } = machine
      const { startMark } = machine.process(pid)
      const starter = { host, pid, ...defined({ startMark }) }
      const content = Buffer.from(
        JSON.stringify({ agent, taskId: request.taskId, starter, timeoutMs, command: options.command }),
      )
      const folderState = await disk.createExclusive(
        join(folder, 'request.json'),
        join(folder, `request.${ids.next()}.draft`),
        content,
      )
      if (folderState === 'taken') return { agentTurnId: key }
      const stop = new AbortController()
      const done = run(request, timeoutMs, budgetMs <= timeoutMs, stop.signal)
        .catch((error: unknown) => options.log.error({ err: error, key }, 'cannot record the end of a command'))
        .finally(() => here.delete(key))
      here.set(key, { stop, done })
      return { agentTurnId: key }
    },
    status,
    async ended(key, signal) {
      const local = here.get(key)
      if (local !== undefined && !signal.aborted) {
        let release = () => {}
        await Promise.race([local.done, new Promise<void>((resolve) => (release = onAbort(signal, resolve)))])
        release()
      }
      for (;;) {
        const now = await status(key)
        if (now.status !== 'active' || signal.aborted) return now
        // Another process started the run: nothing signals its end here, so poll.
        await clock.sleep(500, signal)
      }
    },
    async stop(key, reason) {
      const local = here.get(key)
      if (local !== undefined) {
        local.stop.abort(reason)
        await local.done
        return
      }
      if ((await status(key)).status !== 'active') return
      const leader = await leaderOf(key)
      if (leader !== null && leader > 1) signalTo(-leader, 'SIGKILL')
      await saveResult(key, { outcome: 'canceled', error: reason, elapsedMs: 0 })
    },
  }
}

function ofCode(code: string): Pick<Result, 'outcome' | 'error'> {
  return code === '0'
    ? { outcome: 'success', error: null }
    : { outcome: 'failed', error: `the command exited with ${code}` }
}
