/**
 * The worker's side of the guardian, a separate process that freezes a turn's processes while the worker cannot confirm its fence
 * (because it is stopped or cannot reach the database), and kills them if the worker ends. A turn is watched before its command starts, and only a
 * successful fenced beat renews it. A guardian that dies or does not respond is replaced at once and receives every watch again; if
 * that fails, the turns end with `guardian_lost`.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Clock, Log } from '@bellwether/base'
import { nodeArguments } from '@bellwether/base/thread'
import { Retryable } from '@bellwether/protocol'
import { splitLines } from './capture.js'
import type { GuardCommand } from './guard.js'
import { systemMachine } from '../disk/machine.js'
import { startCleaner } from './cleaner.js'
import { connectChannel, newRenewalChannel, type RenewalChannel } from './renewal-channel.js'

type LossReason = 'expired' | 'guardian_lost'

export interface Watch {
  /** Reports the started process, the leader of its session. */
  root(pid: number): void
  /** Reports a successful fenced beat that was sent at `sinceMs` on the worker's monotonic clock. */
  renew(sinceMs: number): void
  /** Ends the watch: no process of the turn is left. */
  release(): void
  /** Whether the last renewal has expired: the processes are frozen, and another worker may run the turn. */
  expired(): boolean
  /** How long the processes were frozen so far. */
  frozenMs(): number
  /** Aborts when the guardian has killed the processes or is lost: end the turn now. */
  readonly lost: AbortSignal
}

export interface Guardian {
  /** Resolves when the guardian has confirmed the watch; throws Retryable if no guardian can be started. */
  watch(token: string, sinceMs: number): Promise<Watch>
  /** Undefined before the first watch and while no guardian runs. */
  readonly pid: number | undefined
  /** Through it another thread renews turns while the event loop of this one is blocked. */
  readonly channel: RenewalChannel
  /** Closes the guardian's stdin: it kills the watched processes that are left and exits. */
  close(): void
}

export interface GuardianOptions {
  readonly clock: Clock
  readonly log: Log
  /** How long a fenced beat keeps a turn alive. Shorter than the silence after which another worker takes over. */
  readonly ttlMs: number
  readonly graceMs: number
  /** A guardian that does not respond within this time is replaced. */
  readonly responseMaxMs?: number
  /** The prefix of this worker's tokens. If it is set, a cleaner kills the processes with such a token when worker and guardian are killed together. */
  readonly workerTokens?: string
  /** The arguments of node that start the guardian. */
  readonly program?: readonly string[]
}

// Starting node takes a fraction of a second; a guardian that does not respond for this long is stuck.
const responseTimeoutMs = 10_000
// A guardian that dies this often within a minute is not started again.
const startsMax = 5
const startsWindowMs = 60_000

interface WatchedTurn {
  untilMs: number
  frozenMs: number
  pid?: number
  readonly lost: AbortController
  readonly released: AbortController
}

interface GuardianProcess {
  readonly child: ChildProcess
  readonly unanswered: Map<number, (confirmed: boolean) => void>
  /** Whether the guardian confirmed the command. */
  send(order: GuardCommand): Promise<boolean>
}

export function openGuardian(options: GuardianOptions): Guardian {
  const { clock, log, ttlMs, graceMs, responseMaxMs = responseTimeoutMs } = options
  const program = options.program ?? nodeArguments('./guardian-main', import.meta.url)
  const watched = new Map<string, WatchedTurn>()
  const channel = newRenewalChannel()
  let current: GuardianProcess | undefined
  let cleaner: ChildProcess | undefined
  let starts: number[] = []
  let cleanerStarts: number[] = []
  let closed = false
  let sequence = 0

  /** Converts the worker's monotonic time to the clock that both processes share. */
  const shared = (untilMs: number) => Math.round(systemMachine.uptimeMs() + untilMs - clock.monotonicMs())

  function lose(token: string, loss: LossReason): void {
    watched.get(token)?.lost.abort(loss)
  }

  const recent = (times: readonly number[]) => times.filter((ms) => clock.monotonicMs() - ms < startsWindowMs)

  /** Starts a cleaner if none runs, and another one when it ends while turns are watched. */
  function keepCleaner(): void {
    if (options.workerTokens === undefined || cleaner !== undefined || closed) return
    cleanerStarts = recent(cleanerStarts)
    if (cleanerStarts.length >= startsMax) return
    cleanerStarts.push(clock.monotonicMs())
    const started = startCleaner(options.workerTokens)
    cleaner = started
    const ended = () => {
      if (cleaner !== started) return
      cleaner = undefined
      if (watched.size > 0) keepCleaner()
    }
    started?.once('exit', ended).once('error', ended)
  }

  function start(): GuardianProcess {
    starts = [...recent(starts), clock.monotonicMs()]
    const child = spawn(process.execPath, [...program], {
      // Its own session, so that signals to the worker's group do not reach it; no environment, so no tokens and secrets.
      detached: true,
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'ignore', 'pipe'],
    })
    connectChannel(channel, child)
    const unanswered: GuardianProcess['unanswered'] = new Map()
    const lines = splitLines(65_536, (line) => {
      const message = JSON.parse(line) as {
        readonly done?: number
        readonly frozen?: string
        readonly expired?: string
      }
      if (message.frozen !== undefined)
        log.warn({ token: message.frozen }, 'processes frozen until a beat confirms their turn')
      if (message.expired !== undefined) lose(message.expired, 'expired')
      if (message.done === undefined) return
      unanswered.get(message.done)?.(true)
      unanswered.delete(message.done)
    })
    child.stdout?.on('data', (chunk: Buffer) => lines.add(chunk))
    // EPIPE after it has ended; the exit event reports the end.
    for (const stream of [child.stdin, child.stdio[3]]) stream?.on('error', () => undefined)
    const born: GuardianProcess = {
      child,
      unanswered,
      send(order) {
        sequence += 1
        const seq = sequence
        child.stdin?.write(`${JSON.stringify({ ...order, seq })}\n`)
        return new Promise((resolve) => {
          const over = new AbortController()
          unanswered.set(seq, (confirmed) => {
            over.abort()
            resolve(confirmed)
          })
          void clock.sleep(responseMaxMs, over.signal).then(() => {
            if (!unanswered.delete(seq)) return
            log.warn({ guardian_pid: child.pid }, 'guardian does not respond, replacing it')
            child.kill('SIGKILL')
            resolve(false)
          })
        })
      },
    }
    child.once('error', (error) => died(born, error))
    child.once('exit', (code, signal) => died(born, { code, signal }))
    // The guardian must not keep the worker's process alive.
    child.unref()
    for (const stream of [child.stdin, child.stdout, child.stdio[3]])
      (stream as { unref?: () => void } | null)?.unref?.()
    return born
  }

  function died(one: GuardianProcess, reason: unknown): void {
    if (current !== one) return
    current = undefined
    connectChannel(channel, undefined)
    for (const settle of one.unanswered.values()) settle(false)
    one.unanswered.clear()
    if (closed) return
    log.error({ guardian_pid: one.child.pid, reason, watched: watched.size }, 'guardian died')
    if (watched.size > 0) void restart()
  }

  async function restart(): Promise<void> {
    const next = running()
    if (next === undefined) {
      for (const token of watched.keys()) lose(token, 'guardian_lost')
      return
    }
    const confirmed = await Promise.all([...watched].map(([token, one]) => watchOn(next, token, one, true)))
    if (confirmed.every(Boolean))
      log.info({ guardian_pid: next.child.pid, watched: watched.size }, 'new guardian took over')
  }

  async function watchOn(
    to: GuardianProcess,
    token: string,
    { untilMs, pid }: WatchedTurn,
    again = false,
  ): Promise<boolean> {
    const sent = [to.send({ do: 'watch', token, until: shared(untilMs), grace: graceMs, again })]
    if (pid !== undefined) sent.push(to.send({ do: 'root', token, pid }))
    return (await Promise.all(sent)).every(Boolean)
  }

  /** A running guardian; undefined if it has died too often. */
  function running(): GuardianProcess | undefined {
    if (current !== undefined) return current
    if (closed || recent(starts).length >= startsMax) return undefined
    current = start()
    return current
  }

  /** When a watch expires, pings the guardian. If it does not respond, a new guardian replaces it and freezes the processes. */
  async function checkExpiry(one: WatchedTurn): Promise<void> {
    const { signal } = one.released
    while (!signal.aborted && !one.lost.signal.aborted) {
      const leftMs = one.untilMs - clock.monotonicMs()
      if (leftMs <= 0) await current?.send({ do: 'ping' })
      await clock.sleep(leftMs > 0 ? leftMs : ttlMs, signal)
    }
  }

  return {
    channel,
    get pid() {
      return current?.child.pid
    },
    async watch(token, sinceMs) {
      const turn: WatchedTurn = {
        untilMs: sinceMs + ttlMs,
        frozenMs: 0,
        lost: new AbortController(),
        released: new AbortController(),
      }
      watched.set(token, turn)
      keepCleaner()
      const release = () => {
        if (watched.get(token) !== turn) return
        watched.delete(token)
        turn.released.abort()
        void current?.send({ do: 'release', token })
      }
      let confirmed = false
      for (let candidate = running(); candidate !== undefined; candidate = confirmed ? undefined : running())
        confirmed = await watchOn(candidate, token, turn)
      if (!confirmed || turn.lost.signal.aborted) {
        release()
        throw new Retryable('Cannot start a command: the guardian is not running', { code: 'guardian_lost' })
      }
      void checkExpiry(turn)
      return {
        lost: turn.lost.signal,
        expired: () => clock.monotonicMs() >= turn.untilMs,
        frozenMs: () => turn.frozenMs + Math.max(0, clock.monotonicMs() - turn.untilMs),
        root(pid) {
          turn.pid = pid
          void current?.send({ do: 'root', token, pid })
        },
        renew(renewedMs) {
          if (turn.lost.signal.aborted || renewedMs + ttlMs <= turn.untilMs) return
          turn.frozenMs += Math.max(0, clock.monotonicMs() - turn.untilMs)
          turn.untilMs = renewedMs + ttlMs
          void current?.send({ do: 'renew', token, until: shared(turn.untilMs) })
        },
        release,
      }
    },
    close() {
      closed = true
      current?.child.stdin?.end()
      cleaner?.stdin?.end()
    },
  }
}
