/**
 * Reads the known keys of an event payload once. A value of the wrong type is ignored; every unknown key becomes a field of
 * the task under its own name. reduce.ts applies the result.
 */
import { objectOf } from '@bellwether/base'

type RawPayload = Readonly<Record<string, unknown>>

const dependenciesMax = 1_000 // more than any plan needs; bounds the memory of one task

export class Payload {
  raw: RawPayload
  /** The reference implementation writes the transition of the task into each line. */
  from: unknown = undefined
  to: unknown = undefined
  title: string | undefined = undefined
  priority: number | undefined = undefined
  impact: number | undefined = undefined
  assignee: string | null | undefined = undefined
  dependencies: readonly string[] | undefined = undefined
  reason: string | undefined = undefined
  reasonCode: string | undefined = undefined
  /** A run without an id opens a run; one with an id refers to it. */
  hasRun = false
  runId: string | undefined = undefined
  agent: string | undefined = undefined
  agentTurnId: string | undefined = undefined
  outcome: string | undefined = undefined
  tokenUsage: number | undefined = undefined
  elapsedMs: number | undefined = undefined
  /** Alternating names and values. */
  fields: readonly unknown[] = noFields
  /** Null: a person checked the damaged line of the task. An object: the line was left out of a compacted log. */
  damage: { readonly line: number; readonly kind: string } | null | undefined = undefined

  constructor(payload: RawPayload) {
    this.raw = payload
    this.read(payload)
  }

  /** Replaces all values by those of this payload, so that one object serves a million lines. */
  read(payload: RawPayload): this {
    this.raw = payload
    this.from = this.to = undefined
    this.title = this.reason = undefined
    this.priority = this.impact = undefined
    this.assignee = undefined
    this.dependencies = undefined
    this.damage = undefined
    let blockers: readonly string[] | undefined
    let fields: unknown[] | undefined
    const run = payload['run']
    const nested = typeof run === 'object' && run !== null ? (run as RawPayload) : undefined
    this.hasRun = nested !== undefined
    const runValues = nested !== undefined && 'runId' in nested ? nested : payload
    this.runId = text(runValues['runId'])
    this.agent = text(nested?.['agent'])
    this.agentTurnId = text(nested?.['agentTurnId']) ?? text(runValues['agentTurnId'])
    this.outcome = text(runValues['outcome'])
    this.tokenUsage = number(runValues['tokenUsage'])
    this.elapsedMs = number(runValues['elapsedMs'])
    this.reasonCode = text(runValues['reasonCode']) ?? text(payload['reasonCode'])
    const ofRun = typeof payload['runId'] === 'string'
    for (const key in payload) {
      const value = payload[key]
      switch (key) {
        case 'run':
        case 'runId':
          break
        case 'from':
          this.from = value
          break
        case 'to':
          this.to = value
          break
        case 'reason':
          this.reason = text(value)
          break
        case 'title':
          if (typeof value === 'string') this.title = value
          break
        case 'priority':
          this.priority = number(value)
          break
        case 'impact':
          this.impact = number(value)
          break
        case 'assignee':
        case 'owner':
          if (typeof value === 'string' || value === null) this.assignee = value
          break
        case 'dependencies':
        case 'dependsOn':
        case 'depends_on':
          this.dependencies = idList(value) ?? this.dependencies
          break
        case 'blockedBy':
          blockers = idList(value)
          break
        case 'damage':
          this.damage = value === null ? null : damageIn(value)
          break
        case 'outcome':
        case 'tokenUsage':
        case 'elapsedMs':
        case 'agentTurnId':
          // Next to a runId they belong to the run.
          if (!ofRun) (fields ??= []).push(key, value)
          break
        case '__proto__':
          break // an assignment would change the prototype
        default:
          ;(fields ??= []).push(key, value)
      }
    }
    this.fields = fields ?? noFields
    // The reference's blockers are dependencies under another name.
    if (blockers !== undefined)
      this.dependencies = [...new Set([...(this.dependencies ?? []), ...blockers])].slice(0, dependenciesMax)
    return this
  }
}

const noFields: readonly unknown[] = Object.freeze([])
export const emptyPayload = new Payload(Object.freeze({}))

function idList(value: unknown): readonly string[] | undefined {
  return Array.isArray(value)
    ? (value as unknown[]).filter((one) => typeof one === 'string').slice(0, dependenciesMax)
    : undefined
}

function damageIn(value: unknown): Payload['damage'] {
  const { line, kind } = objectOf(value)
  return Number.isSafeInteger(line) && typeof kind === 'string' ? { line: line as number, kind } : undefined
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Finite, so that a priority can be compared and written: JSON.parse reads 1e999 as Infinity. */
function number(value: unknown): number | undefined {
  const parsed = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  // Adding 0 turns -0 into 0, which is how JSON writes it.
  return typeof parsed === 'number' && Number.isFinite(parsed) ? parsed + 0 : undefined
}
