/**
 * The engine's state of one fibre: where it can continue (ready yields, due timers, a gate inside the database), and the one statement it may have
 * in flight. The JavaScript of a fibre runs only when the scheduler lets it continue at one of these. The promises of a dead strand stay
 * pending, so that no `finally` runs.
 */
import type { Wire } from './control.js'
import type { VirtualTime } from './time.js'

export interface Option {
  readonly label: string
  go(): void | Promise<void>
}

export interface Timer extends Option {
  readonly atUs: number
}

export interface Flight {
  label: string
  /**
   * Blocked: frozen while it waits for a lock of another fibre. Granted: still frozen, but no longer blocked; it continues when it is
   * chosen, as a woken process may take its time.
   */
  state: 'running' | 'gated' | 'blocked' | 'granted' | 'arrived'
  /** Pids, while blocked. */
  by: readonly number[]
  deliver: () => void
}

/** One microsecond per statement: instants differ and are ordered, and no deadline comes noticeably closer. */
const tickUs = 1

export class Strand {
  readonly ready: Option[] = []
  readonly timers: Timer[] = []
  state: 'alive' | 'returned' | 'threw' | 'crashed' = 'alive'
  flight: Flight | undefined
  inTransaction = false
  /** How many yields it has had. */
  arrivals = 0
  slowUntil = 0
  dieAfterCommit = false
  #wire: Wire | undefined

  constructor(
    readonly name: string,
    readonly daemon: boolean,
    readonly time: VirtualTime,
  ) {}

  get alive(): boolean {
    return this.state === 'alive'
  }

  get wire(): Wire {
    if (this.#wire === undefined) throw new Error(`${this.name} has no connection yet`)
    return this.#wire
  }

  get connected(): boolean {
    return this.#wire !== undefined
  }

  connect(wire: Wire): void {
    this.#wire = wire
    wire.onGate = (label) => {
      if (this.flight === undefined) return
      this.arrivals += 1
      this.flight.label = label
      this.flight.state = 'gated'
    }
  }

  yield(label: string): Promise<void> {
    return new Promise((resolve) => {
      this.arrivals += 1
      this.ready.push({ label, go: resolve })
    })
  }

  /** Sleeping is a yield too: a fibre may die during a sleep. */
  sleep(us: number, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      this.arrivals += 1
      const roused = (): void => {
        const at = this.timers.indexOf(timer)
        if (at >= 0) this.ready.push(...this.timers.splice(at, 1))
      }
      const go = (): void => {
        signal?.removeEventListener('abort', roused)
        resolve()
      }
      const timer: Timer = { label: 'wake', atUs: this.time.monotonicUs + us, go }
      this.timers.push(timer)
      signal?.addEventListener('abort', roused, { once: true })
    })
  }

  /** Runs database work; its result waits in the flight until the engine delivers it. */
  fly<T>(label: string, work: (wire: Wire) => Promise<T>): Promise<T> {
    if (this.flight !== undefined)
      throw new Error(`${this.name} sends "${label}" while "${this.flight.label}" is in flight`)
    const flight: Flight = { label, state: 'running', by: [], deliver: () => undefined }
    this.flight = flight
    return new Promise((resolve, reject) => {
      const arrive = (deliver: () => void): void => {
        flight.deliver = deliver
        flight.state = 'arrived'
      }
      work(this.wire).then(
        (value) => arrive(() => resolve(value)),
        (error: unknown) => arrive(() => reject(error)),
      )
    })
  }

  tick(): number {
    this.time.pass(tickUs)
    return this.time.wallUs
  }

  options(): Option[] {
    if (!this.alive) return []
    const { flight } = this
    const gates: Option[] = []
    if (flight?.state === 'gated') gates.push({ label: flight.label, go: () => this.#pass(flight) })
    if (flight?.state === 'granted') gates.push({ label: `${flight.label} (granted)`, go: () => this.#thaw(flight) })
    const due = this.timers.filter(({ atUs }) => atUs <= this.time.monotonicUs)
    return [...gates, ...this.ready, ...due]
  }

  async take(option: Option): Promise<void> {
    for (const list of [this.ready, this.timers] as Option[][]) {
      const at = list.indexOf(option)
      if (at >= 0) list.splice(at, 1)
    }
    await option.go()
  }

  /** Waiting for a lock is a yield too: a fibre may die there. */
  block(by: readonly number[]): void {
    if (this.flight === undefined) return
    this.flight.by = by
    this.flight.state = 'blocked'
    this.arrivals += 1
    this.wire.freeze()
  }

  #thaw(flight: Flight): void {
    flight.state = 'running'
    this.wire.thaw()
  }

  async #pass(flight: Flight): Promise<void> {
    flight.state = 'running'
    await this.wire.pass(this.tick())
  }
}
