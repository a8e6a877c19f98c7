/**
 * Health units and how their failures spread (V5.3, V5.4). A unit reports its own state; what it amounts to is derived: a
 * pipe fails with the source, sender or receiver it depends on, a pipe's failure stays its own, and a view whose pipe
 * failed takes no writes: a live one is unavailable, others stay readable. `judge` is pure; the book beside it keeps
 * reports, counts restarts and tells each change once.
 */
import type { HealthState, HealthUnit } from '@bellwether/protocol'

export type UnitKind = HealthUnit['kind']

export interface Unit {
  readonly kind: UnitKind
  readonly name: string
  /** What it says of itself. */
  readonly state: HealthState
  readonly restarts: number
  readonly error: string | undefined
  /** Keys of the units it stands on. */
  readonly dependsOn: readonly string[]
  /** A view that is worth nothing when it is not up to date. */
  readonly live?: boolean
}

export interface Judged extends Unit {
  /** What it amounts to, with what it stands on. */
  readonly effective: HealthState
  /** The unit whose failure this is, if it is another's. */
  readonly because: string | undefined
}

export const unitKey = (unit: { readonly kind: UnitKind; readonly name: string }) => `${unit.kind}:${unit.name}`

/** Which kinds a failure passes through, and to what: one row a rule. */
const cascade: Readonly<
  Partial<Record<UnitKind, { readonly on: readonly UnitKind[]; readonly becomes: HealthState }>>
> = {
  sensor_pipe: { on: ['source', 'sender'], becomes: 'failed' },
  fusion_pipe: { on: ['receiver'], becomes: 'failed' },
  view: { on: ['fusion_pipe'], becomes: 'degraded' },
}

// source → pipe → view: in this order each unit's foundations are judged before it.
const order: readonly UnitKind[] = ['source', 'sender', 'receiver', 'sensor_pipe', 'fusion_pipe', 'view']

export function judge(units: ReadonlyMap<string, Unit>): Map<string, Judged> {
  const judged = new Map<string, Judged>()
  for (const kind of order) {
    for (const [key, unit] of units) {
      if (unit.kind !== kind) continue
      const rule = cascade[kind]
      const failed = unit.dependsOn.find((other) => {
        const foundation = judged.get(other)
        return foundation?.effective === 'failed' && rule?.on.includes(foundation.kind) === true
      })
      const inherited = failed === undefined ? 'ok' : unit.live === true ? 'failed' : rule!.becomes
      const effective = worse(unit.state, inherited)
      judged.set(key, { ...unit, effective, because: effective === unit.state ? undefined : failed })
    }
  }
  return judged
}

const severity: Readonly<Record<HealthState, number>> = { ok: 0, degraded: 1, failed: 2 }
const worse = (one: HealthState, other: HealthState) => (severity[one] >= severity[other] ? one : other)

export interface HealthSummary {
  readonly status: HealthState
  readonly units: number
  readonly restarts: number
  readonly changes: number
  /** Those that are not ok, by key; a long list is cut. */
  readonly troubled: Readonly<Record<string, HealthState>>
}

export type TellChange = (change: {
  readonly unit: string
  readonly from: HealthState | 'absent'
  readonly to: HealthState
  readonly error: string | undefined
  readonly because: string | undefined
}) => void

// Sessions can report up to 64 units each; a heartbeat's answer stays small.
const troubledMax = 20

export class HealthBook {
  readonly #units = new Map<string, Unit>()
  readonly #tell: TellChange
  #judged = new Map<string, Judged>()
  #changes = 0

  constructor(tell: TellChange) {
    this.#tell = tell
  }

  get changes(): number {
    return this.#changes
  }

  get(key: string): Judged | undefined {
    return this.#judged.get(key)
  }

  all(): Judged[] {
    return [...this.#judged.values()]
  }

  put(unit: Unit): void {
    const key = unitKey(unit)
    const before = this.#units.get(key)
    if (before !== undefined && sameUnit(before, unit)) return
    this.#units.set(key, unit)
    this.#judge()
  }

  /** A unit of ours failed: its restart is counted at once, whoever restarts it calls `recover`. */
  fail(key: string, error: string): void {
    const unit = this.#units.get(key)
    if (unit === undefined) return
    this.#units.set(key, { ...unit, state: 'failed', error, restarts: unit.restarts + 1 })
    this.#judge()
  }

  recover(key: string): void {
    const unit = this.#units.get(key)
    if (unit === undefined || unit.state === 'ok') return
    this.#units.set(key, { ...unit, state: 'ok', error: undefined })
    this.#judge()
  }

  drop(key: string): void {
    if (this.#units.delete(key)) this.#judge()
  }

  summary(): HealthSummary {
    const troubled: Record<string, HealthState> = {}
    let status: HealthState = 'ok'
    let restarts = 0
    let listed = 0
    for (const [key, unit] of this.#judged) {
      restarts += unit.restarts
      if (unit.effective === 'ok') continue
      status = worse(status, unit.effective)
      if (listed < troubledMax) troubled[key] = unit.effective
      listed += 1
    }
    return { status, units: this.#judged.size, restarts, changes: this.#changes, troubled }
  }

  #judge(): void {
    const before = this.#judged
    this.#judged = judge(this.#units)
    for (const [key, unit] of this.#judged) {
      const was = before.get(key)?.effective ?? 'absent'
      if (was === unit.effective || (was === 'absent' && unit.effective === 'ok')) continue
      this.#changes += 1
      this.#tell({ unit: key, from: was, to: unit.effective, error: unit.error, because: unit.because })
    }
  }
}

function sameUnit(one: Unit, other: Unit): boolean {
  return (
    one.state === other.state &&
    one.restarts === other.restarts &&
    one.error === other.error &&
    one.live === other.live &&
    one.dependsOn.length === other.dependsOn.length &&
    one.dependsOn.every((key, at) => key === other.dependsOn[at])
  )
}
