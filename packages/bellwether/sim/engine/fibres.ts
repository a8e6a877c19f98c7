/**
 * The fibres of one run: spawn, settle, crash, restart, and clean up at the end. After each call nothing moves, neither a backend nor
 * JavaScript, and every fibre has a connection. Events of fibres go into the trace; the first finding is kept. run.ts decides who steps
 * and when time passes.
 */
import type { Ids } from '../../src/ports/ids.js'
import type { SimulatedBell } from './bell.js'
import type { Control } from './control.js'
import { dying, fibreClock, fibreDatabase, type Fibre } from './fibre.js'
import type { Finding } from './finding.js'
import type { Prng } from './prng.js'
import { deadlock, settle } from './settle.js'
import { Strand, type Option } from './strand.js'
import type { VirtualTime } from './time.js'

export interface SpawnOptions {
  /** The run does not wait for this fibre: guards and workers that loop without end. */
  readonly daemon?: boolean
  /** After a crash the same body starts again as `name~2`, `name~3`…, like a restarted process. */
  readonly restart?: boolean
}

export type Body = (fibre: Fibre) => Promise<void>

export interface Ports {
  readonly control: Control
  readonly time: VirtualTime
  readonly bell: SimulatedBell
  readonly ids: Ids
  readonly random: Prng
}

export class Fibres {
  readonly strands: Strand[] = []
  readonly trace: string[] = []
  finding: Finding | undefined
  readonly #ports: Ports
  readonly #restarts = new Map<Strand, () => void>()

  constructor(ports: Ports) {
    this.#ports = ports
  }

  spawn(name: string, body: Body, options: SpawnOptions = {}, life = 1): void {
    const lifeName = life === 1 ? name : `${name}~${life}`
    if (this.strands.some((strand) => strand.name === lifeName))
      throw new Error(`Two fibres have the name "${lifeName}"`)
    const { time, bell, ids, random } = this.#ports
    const strand = new Strand(lifeName, options.daemon ?? false, time)
    this.strands.push(strand)
    if (options.restart) this.#restarts.set(strand, () => this.spawn(name, body, options, life + 1))
    const fibre: Fibre = {
      name: lifeName,
      db: fibreDatabase(strand),
      clock: fibreClock(strand),
      bell: bell.bellOf(strand),
      ids,
      random: random.fork(lifeName),
      yield: (label) => strand.yield(label),
      die: () => strand.yield(dying),
    }
    const returned = (): void => {
      strand.state = 'returned'
    }
    void strand
      .yield('start')
      .then(() => body(fibre))
      .then(returned, (error: unknown) => this.#threw(strand, error))
  }

  /** Whether a fibre that the run waits for is still alive. */
  get busy(): boolean {
    return this.strands.some(({ alive, daemon }) => alive && !daemon)
  }

  get alive(): Strand[] {
    return this.strands.filter((strand) => strand.alive)
  }

  async step(strand: Strand, option: Option): Promise<void> {
    if (option.label === dying) return this.crash(strand)
    this.trace.push(`${strand.name}:${option.label}`)
    try {
      await strand.take(option)
    } catch (error) {
      this.#threw(strand, error)
    }
    await this.settle()
  }

  /** Ends the backend and never resumes the JavaScript. */
  async crash(strand: Strand): Promise<void> {
    this.trace.push(`! ${strand.name} crashes at ${strand.flight?.label ?? strand.options()[0]?.label ?? 'rest'}`)
    strand.state = 'crashed'
    await strand.wire.kill()
    this.#restarts.get(strand)?.()
    await this.settle()
  }

  async settle(): Promise<void> {
    const before = new Set(this.strands.filter(isBlocked))
    for (const strand of this.strands) if (!strand.connected) strand.connect(await this.#ports.control.take())
    await settle(this.strands, this.#ports.control)
    // The JavaScript that just ran may have spawned fibres.
    for (const strand of this.strands) if (!strand.connected) strand.connect(await this.#ports.control.take())
    for (const strand of this.strands) {
      if (isBlocked(strand) && !before.has(strand))
        this.trace.push(`! ${strand.name} waits for ${this.#blockersOf(strand)}`)
    }
    const ring = deadlock(this.strands)
    if (ring.length === 0) return
    this.finding ??= { kind: 'deadlock', fibres: ring.map(({ name, flight }) => `${name} at ${flight?.label ?? ''}`) }
  }

  /** Abandons running fibres; keeps connections that are clean, or can be cleaned, for the next run. */
  async leave(): Promise<void> {
    for (const strand of this.strands.filter(({ connected }) => connected)) {
      const { state, flight, inTransaction, wire } = strand
      if (state === 'crashed') continue
      if (state === 'alive') strand.state = 'crashed'
      if (flight !== undefined) {
        await wire.kill()
        continue
      }
      if (inTransaction) await wire.query({ text: 'rollback' })
      this.#ports.control.giveBack(wire)
    }
  }

  #blockersOf({ flight }: Strand): string {
    const blockers = this.alive.filter(({ wire }) => flight?.by.includes(wire.pid))
    return blockers.map(({ name }) => name).join(', ')
  }

  #threw(strand: Strand, error: unknown): void {
    strand.state = 'threw'
    this.finding ??= { kind: 'threw', fibre: strand.name, error }
  }
}

function isBlocked({ alive, flight }: Strand): boolean {
  return alive && flight?.state === 'blocked'
}
