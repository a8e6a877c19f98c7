/**
 * The house as a child process: `bellwether up --json`, the same that a user starts. Always: it holds a pipe from us and goes when we
 * go; it comes back on its first port, with its first key; what is known of its insides (pids, memory) is read from outside, as
 * an operator would. What is done to it is left to the play and to chaos.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock, Log } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import { startEmbedded } from '../ports/database/embedded.js'
import { layoutOf } from '../ports/database/layout.js'
import { startChild, type Child } from '../runtime/supervise/child-process.js'
import { projectId } from './cast.js'
import { databaseOf, type Place } from './place.js'

export interface HouseFacts {
  readonly url: string
  readonly adminKey: string
  readonly loginUrl: string
  readonly databaseUrl: string
  readonly pid: number
}

export interface House {
  /** What it said when it was ready, the last time. */
  readonly facts: HouseFacts
  /** When it was ready, on the clock that does not jump; undefined while it is down. */
  readonly upSinceMs: number | undefined
  /** Starts it, again where it has ended. */
  start(): Promise<HouseFacts>
  /** SIGKILL, and nothing after it: its children go by themselves, its database stays. */
  kill(): Promise<void>
  stop(hurry: boolean): Promise<void>
  /** The pids of its workers that live now. */
  workers(): number[]
  /** The pid of its database, if one runs. */
  databasePid(): number | undefined
  /** What the house and its workers hold in memory, by pid. */
  memory(): readonly { readonly pid: number; readonly mebibytes: number }[]
}

export interface HouseOptions {
  readonly place: Place
  readonly program: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  readonly log: Log
  /** Ends the tries to start it. */
  readonly signal: AbortSignal
}

// A house that was killed takes some seconds to let go of its folder; one that cannot start says why again and again.
const startTries = 8
const againMs = 1_500
const lockMs = 300
// These do not pass by waiting.
const lasting = new Set(['folder_not_ours', 'no_account', 'flock_missing', 'agent_files_bad', 'folder_unreachable'])
const logTailChars = 4_000

export function openHouse({ place, program, env, clock, log, signal }: HouseOptions): House {
  let member: Child | undefined
  let facts: HouseFacts | undefined
  let upSinceMs: number | undefined
  let port = '0'

  async function once(): Promise<Child> {
    const words = ['--port', port, '--data', place.dataDir, '--project', projectId]
    // Without the signal: a house that is told to stop while it starts gets there first, and then stops in good order.
    return startChild({ program, env, folder: place.project, logFile: place.logFile }, 'up', words)
  }

  async function start(): Promise<HouseFacts> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        member = await once()
        break
      } catch (error) {
        const told = toldBy(place.logFile, error)
        if (signal.aborted || attempt >= startTries || (told instanceof Terminal && lasting.has(told.code))) throw told
        await clock.sleep(againMs, signal)
      }
    }
    const now = member
    facts = now.facts as unknown as HouseFacts
    port = new URL(facts.url).port
    upSinceMs = clock.monotonicMs()
    void now.ended.then(() => {
      if (member === now) upSinceMs = undefined
    })
    return facts
  }

  /** What a house that was ended before it was ready, or by force, has left running: taken over and stopped in good order. */
  async function endDatabase(): Promise<void> {
    for (let attempt = 1; postmasterOf(place.dataDir) !== undefined; attempt += 1) {
      try {
        const left = await startEmbedded({ dataDir: databaseOf(place.dataDir), log })
        await left.stop()
      } catch (error) {
        // Whoever held the folder's lock is about to be gone.
        if (attempt >= startTries) throw error
        await clock.sleep(lockMs)
      }
    }
  }

  return {
    get facts() {
      if (facts === undefined) throw new Terminal('the house was never up', { code: 'house_down' })
      return facts
    },
    get upSinceMs() {
      return upSinceMs
    },
    start,
    async kill() {
      upSinceMs = undefined
      member?.kill()
      await member?.ended
    },
    async stop(hurry) {
      upSinceMs = undefined
      await member?.stop(hurry, hurry ? hurryMs : drainMs)
      await endDatabase()
    },
    workers: () => (member?.alive() === true ? childrenOf(member.pid).filter(isWorker) : []),
    databasePid: () => postmasterOf(place.dataDir),
    memory: () =>
      member?.alive() === true
        ? [member.pid, ...childrenOf(member.pid).filter(isWorker)].map((pid) => ({ pid, mebibytes: residentOf(pid) }))
        : [],
  }
}

// A worker drains for 20 s and the house stops its parts one after the other.
const drainMs = 45_000
const hurryMs = 15_000

/** What the house itself said last is more use than that it ended. */
function toldBy(logFile: string, error: unknown): unknown {
  const said = [...readTail(logFile).matchAll(/^error: (.*) \[(\w+)\]$/gm)].at(-1)
  if (said === undefined) return error
  return new Terminal(`the house does not start: ${said[1]}`, {
    code: said[2] ?? 'house_failed',
    cause: error,
    hint: `its log is in ${logFile}`,
  })
}

function readTail(file: string): string {
  return readFileSync(file, 'utf8').slice(-logTailChars)
}

/** Children by /proc, where there is one: what `ps --ppid` says. */
function childrenOf(pid: number): number[] {
  if (!existsSync('/proc/self')) return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && fieldOf(`/proc/${name}/status`, 'PPid') === pid)
    .map(Number)
}

function isWorker(pid: number): boolean {
  return textOf(`/proc/${pid}/cmdline`)?.split('\0').includes('worker') === true
}

function residentOf(pid: number): number {
  return (fieldOf(`/proc/${pid}/status`, 'VmRSS') ?? 0) / 1_024
}

function postmasterOf(dataDir: string): number | undefined {
  const pid = Number(textOf(join(layoutOf(databaseOf(dataDir)).cluster, 'postmaster.pid'))?.split('\n')[0])
  return Number.isSafeInteger(pid) && pid > 1 && textOf(`/proc/${pid}/cmdline`)?.includes('postgres') === true
    ? pid
    : undefined
}

function fieldOf(path: string, name: string): number | undefined {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(textOf(path) ?? '')?.[1]
  return found === undefined ? undefined : Number(found)
}

/** Undefined where there is none, or where its process has gone. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && ['ENOENT', 'ESRCH', 'EACCES'].includes(String(error.code)))
      return undefined
    throw error
  }
}
