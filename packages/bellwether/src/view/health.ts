/**
 * Health units and how failures cascade (V5.3, V5.4). A unit reports its own state; its effective state is derived: a pipe
 * fails with the source, sender or receiver it depends on, and a view whose pipe failed is unavailable if it is live and
 * stays readable otherwise. `deriveHealth` is pure; the registry stores reports, counts restarts and reports each change once.
 */
import type { HealthState, HealthUnit } from '@bellwether/protocol'
import type { HealthSummary } from '@bellwether/protocol/http'

export type UnitKind = HealthUnit['kind']

export interface Unit {
  readonly kind: UnitKind
  readonly name: string
  /** The state that the unit itself reports. */
  readonly state: HealthState
  readonly restarts: number
  readonly error: string | undefined
  /** Keys of the units it depends on. */
  readonly dependsOn: readonly string[]
  /** A live view: unavailable unless it is up to date. */
  readonly live?: boolean
}

export interface DerivedUnit extends Unit {
  /** Its own state or the one inherited from its dependencies, whichever is worse. */
  readonly effective: HealthState
  /** The failed dependency, if the effective state is inherited. */
  readonly because: string | undefined
}

export const unitKey = (unit: { readonly kind: UnitKind; readonly name: string }) => `${unit.kind}:${unit.name}`

/** The unit of the HTTP server through which sensors report. */
export const httpReceiver = unitKey({ kind: 'receiver', name: 'http' })

/** One row per rule: which dependencies' failures a kind inherits, and as which state. */
const cascade: Readonly<
  Partial<Record<UnitKind, { readonly on: readonly UnitKind[]; readonly becomes: HealthState }>>
> = {
  sensor_pipe: { on: ['source', 'sender'], becomes: 'failed' },
  fusion_pipe: { on: ['receiver'], becomes: 'failed' },
  view: { on: ['fusion_pipe'], becomes: 'degraded' },
}

// In this order the dependencies of a unit are derived before the unit.
const order: readonly UnitKind[] = ['source', 'sender', 'receiver', 'sensor_pipe', 'fusion_pipe', 'view']

export function deriveHealth(units: ReadonlyMap<string, Unit>): Map<string, DerivedUnit> {
  const derived = new Map<string, DerivedUnit>()
  for (const kind of order) {
    for (const [key, unit] of units) {
      if (unit.kind !== kind) continue
      const rule = cascade[kind]
      const failed = unit.dependsOn.find((other) => {
        const dependency = derived.get(other)
        return dependency?.effective === 'failed' && rule?.on.includes(dependency.kind) === true
      })
      const inherited = failed === undefined ? 'ok' : unit.live === true ? 'failed' : rule!.becomes
      const effective = worse(unit.state, inherited)
      derived.set(key, { ...unit, effective, because: effective === unit.state ? undefined : failed })
    }
  }
  return derived
}

const severity: Readonly<Record<HealthState, number>> = { ok: 0, degraded: 1, failed: 2 }
const worse = (one: HealthState, other: HealthState) => (severity[one] >= severity[other] ? one : other)

export type OnHealthChange = (change: {
  readonly unit: string
  readonly from: HealthState | 'absent'
  readonly to: HealthState
  readonly error: string | undefined
  readonly because: string | undefined
}) => void

// A session can report 64 units; the limit keeps heartbeat responses small.
const troubledMax = 20

export class HealthRegistry {
  readonly #units = new Map<string, Unit>()
  readonly #onChange: OnHealthChange
  #derived = new Map<string, DerivedUnit>()
  #changes = 0

  constructor(onChange: OnHealthChange) {
    this.#onChange = onChange
  }

  get changes(): number {
    return this.#changes
  }

  get(key: string): DerivedUnit | undefined {
    return this.#derived.get(key)
  }

  all(): DerivedUnit[] {
    return [...this.#derived.values()]
  }

  put(unit: Unit): void {
    const key = unitKey(unit)
    const before = this.#units.get(key)
    if (before !== undefined && sameUnit(before, unit)) return
    this.#units.set(key, unit)
    this.#derive()
  }

  /** Marks a unit as failed and counts its restart at once; `recover` follows when it works again. */
  fail(key: string, error: string): void {
    const unit = this.#units.get(key)
    if (unit === undefined) return
    this.#units.set(key, { ...unit, state: 'failed', error, restarts: unit.restarts + 1 })
    this.#derive()
  }

  recover(key: string): void {
    const unit = this.#units.get(key)
    if (unit === undefined || unit.state === 'ok') return
    this.#units.set(key, { ...unit, state: 'ok', error: undefined })
    this.#derive()
  }

  /** Replaces the dependencies of a unit and keeps its state. */
  setDependencies(key: string, dependsOn: readonly string[]): void {
    const unit = this.#units.get(key)
    if (unit !== undefined) this.put({ ...unit, dependsOn })
  }

  drop(key: string): void {
    if (this.#units.delete(key)) this.#derive()
  }

  summary(): HealthSummary {
    const troubled: Record<string, HealthState> = {}
    let status: HealthState = 'ok'
    let restarts = 0
    let listed = 0
    for (const [key, unit] of this.#derived) {
      restarts += unit.restarts
      if (unit.effective === 'ok') continue
      status = worse(status, unit.effective)
      if (listed < troubledMax) troubled[key] = unit.effective
      listed += 1
    }
    return { status, units: this.#derived.size, restarts, changes: this.#changes, troubled }
  }

  #derive(): void {
    const before = this.#derived
    this.#derived = deriveHealth(this.#units)
    for (const [key, unit] of this.#derived) {
      const stateBefore = before.get(key)?.effective ?? 'absent'
      if (stateBefore === unit.effective || (stateBefore === 'absent' && unit.effective === 'ok')) continue
      this.#changes += 1
      this.#onChange({ unit: key, from: stateBefore, to: unit.effective, error: unit.error, because: unit.because })
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
