/**
 * The worker's side of the guardian: a process of its own that ends a turn's processes when the worker cannot (killed, stopped,
 * cut off from the database). Always: a turn is watched before its command is started; only a successful fenced beat renews it;
 * a guardian that dies or falls silent is replaced at once and told everything again, and if that fails the turns are given up.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Clock, Log } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { splitLines } from './capture.js'
import type { GuardCommand } from './guard.js'
import { systemMachine } from '../disk/machine.js'

export type LossReason = 'expired' | 'guardian_lost'

export interface Watch {
  /** The process that was started: the leader of its session. */
  root(pid: number): void
  /** The fence held when it was asked for, at `sinceMs` of the worker's monotonic clock. */
  renew(sinceMs: number): void
  /** Nothing of the turn is left. */
  release(): void
  /** Fires when nobody vouches for the turn any more: end it now. */
  readonly lost: AbortSignal
}

export interface Guardian {
  /** Resolves when the guardian has it; throws Retryable when there is no guardian to be had. */
  watch(token: string, sinceMs: number): Promise<Watch>
  /** Undefined until the first watch, and between two lives. */
  readonly pid: number | undefined
  /** Lets the guardian end what is left and go. */
  close(): void
}

export interface GuardianOptions {
  readonly clock: Clock
  readonly log: Log
  /** How long a fenced beat vouches for a turn. Shorter than the silence after which others take it over. */
  readonly ttlMs: number
  readonly graceMs: number
  /** After this long without an answer a guardian is replaced. */
  readonly answerMaxMs?: number
  /** What node runs to be the guardian. */
  readonly program?: readonly string[]
}

// Starting node takes a fraction of a second; a guardian that does not answer for this long is as good as none.
const answerUsualMs = 10_000
// A guardian that dies this often within a minute will not live.
const startsMax = 5
const startsWindowMs = 60_000

interface WatchedTurn {
  untilMs: number
  pid?: number
  readonly lost: AbortController
  readonly gone: AbortController
}

interface GuardianProcess {
  readonly child: ChildProcess
  readonly unanswered: Map<number, (heard: boolean) => void>
  /** Whether it was heard. */
  send(order: GuardCommand): Promise<boolean>
}

export function openGuardian(options: GuardianOptions): Guardian {
  const { clock, log, ttlMs, graceMs, answerMaxMs = answerUsualMs } = options
  const program = options.program ?? ownProgram()
  const watched = new Map<string, WatchedTurn>()
  let current: GuardianProcess | undefined
  let starts: number[] = []
  let closed = false
  let sequence = 0

  /** The worker's time as the guardian tells it. */
  const shared = (untilMs: number) => Math.round(systemMachine.uptimeMs() + untilMs - clock.monotonicMs())

  function lose(token: string, loss: LossReason): void {
    watched.get(token)?.lost.abort(loss)
  }

  function start(): GuardianProcess {
    const nowMs = clock.monotonicMs()
    starts = [...starts.filter((ms) => nowMs - ms < startsWindowMs), nowMs]
    const child = spawn(process.execPath, [...program], {
      // Its own session: what is sent to the worker's group does not reach it. Its environment is empty of turns and secrets.
      detached: true,
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const unanswered: GuardianProcess['unanswered'] = new Map()
    const lines = splitLines(65_536, (line) => {
      const message = JSON.parse(line) as { readonly done?: number; readonly expired?: string }
      if (message.expired !== undefined) lose(message.expired, 'expired')
      if (message.done === undefined) return
      unanswered.get(message.done)?.(true)
      unanswered.delete(message.done)
    })
    child.stdout?.on('data', (chunk: Buffer) => lines.add(chunk))
    child.stdin?.on('error', () => undefined) // EPIPE once it is gone; its exit is what tells
    const born: GuardianProcess = {
      child,
      unanswered,
      send(order) {
        sequence += 1
        const seq = sequence
        child.stdin?.write(`${JSON.stringify({ ...order, seq })}\n`)
        return new Promise((resolve) => {
          const over = new AbortController()
          unanswered.set(seq, (heard) => {
            over.abort()
            resolve(heard)
          })
          void clock.sleep(answerMaxMs, over.signal).then(() => {
            if (!unanswered.delete(seq)) return
            log.warn({ guardian_pid: child.pid }, 'the guardian does not answer and is replaced')
            child.kill('SIGKILL')
            resolve(false)
          })
        })
      },
    }
    child.once('error', (error) => died(born, error))
    child.once('exit', (code, signal) => died(born, { code, signal }))
    // The worker may go without waiting for it: that is what it is for.
    child.unref()
    for (const stream of [child.stdin, child.stdout]) (stream as { unref?: () => void } | null)?.unref?.()
    return born
  }

  function died(one: GuardianProcess, reason: unknown): void {
    if (current !== one) return
    current = undefined
    for (const settle of one.unanswered.values()) settle(false)
    one.unanswered.clear()
    if (closed) return
    log.error({ guardian_pid: one.child.pid, reason, watched: watched.size }, 'the guardian died')
    if (watched.size > 0) void restart()
  }

  async function restart(): Promise<void> {
    const next = running()
    if (next === undefined) {
      for (const token of watched.keys()) lose(token, 'guardian_lost')
      return
    }
    const heard = await Promise.all([...watched].map(([token, one]) => watchOn(next, token, one)))
    if (heard.every(Boolean))
      log.info({ guardian_pid: next.child.pid, watched: watched.size }, 'a new guardian has taken over')
  }

  async function watchOn(to: GuardianProcess, token: string, { untilMs, pid }: WatchedTurn): Promise<boolean> {
    const sent = [to.send({ do: 'watch', token, until: shared(untilMs), grace: graceMs })]
    if (pid !== undefined) sent.push(to.send({ do: 'root', token, pid }))
    return (await Promise.all(sent)).every(Boolean)
  }

  /** A living guardian; undefined when it has died too often. */
  function running(): GuardianProcess | undefined {
    if (current !== undefined) return current
    const nowMs = clock.monotonicMs()
    if (closed || starts.filter((ms) => nowMs - ms < startsWindowMs).length >= startsMax) return undefined
    current = start()
    return current
  }

  /** The worker judges itself too: on its own clock, whether or not its guardian lives. */
  async function expireLocally(token: string, one: WatchedTurn): Promise<void> {
    while (!one.gone.signal.aborted && !one.lost.signal.aborted) {
      const leftMs = one.untilMs - clock.monotonicMs()
      if (leftMs <= 0) lose(token, 'expired')
      else await clock.sleep(leftMs, one.gone.signal)
    }
  }

  return {
    get pid() {
      return current?.child.pid
    },
    async watch(token, sinceMs) {
      const one: WatchedTurn = { untilMs: sinceMs + ttlMs, lost: new AbortController(), gone: new AbortController() }
      watched.set(token, one)
      const release = () => {
        if (watched.get(token) !== one) return
        watched.delete(token)
        one.gone.abort()
        void current?.send({ do: 'release', token })
      }
      let heard = false
      for (let living = running(); living !== undefined; living = heard ? undefined : running())
        heard = await watchOn(living, token, one)
      if (!heard || one.lost.signal.aborted) {
        release()
        throw new Retryable('there is no guardian: commands are not started without one', { code: 'guardian_lost' })
      }
      void expireLocally(token, one)
      return {
        lost: one.lost.signal,
        root(pid) {
          one.pid = pid
          void current?.send({ do: 'root', token, pid })
        },
        renew(renewedMs) {
          if (one.lost.signal.aborted || renewedMs + ttlMs <= one.untilMs) return
          one.untilMs = renewedMs + ttlMs
          void current?.send({ do: 'renew', token, until: shared(one.untilMs) })
        },
        release,
      }
    },
    close() {
      closed = true
      current?.child.stdin?.end()
    },
  }
}

/** The file beside this one, run as this process is run: from source by a loader, or built. */
function ownProgram(): readonly string[] {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  return [...process.execArgv, fileURLToPath(new URL(`./guardian-main.${extension}`, import.meta.url))]
}
