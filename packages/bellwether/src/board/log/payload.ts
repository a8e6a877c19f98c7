/**
 * What a payload says, taken out of it once. Always: a value of the wrong kind says nothing; whatever the board has no word for
 * of its own becomes a field under its own name. Pure. What it does to a task is left to reduce.ts.
 */
type RawPayload = Readonly<Record<string, unknown>>

const dependenciesMax = 1_000 // a task that waits for more is a project

export class Payload {
  raw: RawPayload
  /** The reference says in each line from where to where the task moves. */
  from: unknown = undefined
  to: unknown = undefined
  title: string | undefined = undefined
  priority: number | undefined = undefined
  impact: number | undefined = undefined
  assignee: string | null | undefined = undefined
  dependencies: readonly string[] | undefined = undefined
  reason: string | undefined = undefined
  reasonCode: string | undefined = undefined
  /** A run: to be opened when it has no id, else spoken of. */
  hasRun = false
  runId: string | undefined = undefined
  agent: string | undefined = undefined
  agentTurnId: string | undefined = undefined
  outcome: string | undefined = undefined
  tokenUsage: number | undefined = undefined
  elapsedMs: number | undefined = undefined
  /** Name, value, name, value, … */
  fields: readonly unknown[] = noFields

  constructor(payload: RawPayload) {
    this.raw = payload
    this.read(payload)
  }

  /** Says what this payload says, and nothing of what it said before: one object serves a million lines. */
  read(payload: RawPayload): this {
    this.raw = payload
    this.from = this.to = undefined
    this.title = this.reason = undefined
    this.priority = this.impact = undefined
    this.assignee = undefined
    this.dependencies = undefined
    let fields: unknown[] | undefined
    const run = payload['run']
    const nested = typeof run === 'object' && run !== null ? (run as RawPayload) : undefined
    this.hasRun = nested !== undefined
    const told = nested !== undefined && 'runId' in nested ? nested : payload
    this.runId = text(told['runId'])
    this.agent = text(nested?.['agent'])
    this.agentTurnId = text(nested?.['agentTurnId']) ?? text(told['agentTurnId'])
    this.outcome = text(told['outcome'])
    this.tokenUsage = number(told['tokenUsage'])
    this.elapsedMs = number(told['elapsedMs'])
    this.reasonCode = text(told['reasonCode']) ?? text(payload['reasonCode'])
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
          if (Array.isArray(value))
            this.dependencies = value.filter((one) => typeof one === 'string').slice(0, dependenciesMax)
          break
        case 'outcome':
        case 'tokenUsage':
        case 'elapsedMs':
        case 'agentTurnId':
          // Beside a runId they are the run's.
          if (!ofRun) (fields ??= []).push(key, value)
          break
        case '__proto__':
          break // an assignment to it would change what an object is, not what it holds
        default:
          ;(fields ??= []).push(key, value)
      }
    }
    this.fields = fields ?? noFields
    return this
  }
}

const noFields: readonly unknown[] = Object.freeze([])
/** An empty payload. */
export const emptyPayload = new Payload(Object.freeze({}))

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Finite, so that a priority can be compared and written: 1e999 is read as Infinity. */
function number(value: unknown): number | undefined {
  const told = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  // -0 is 0: it could not be told from it once written.
  return typeof told === 'number' && Number.isFinite(told) ? told + 0 : undefined
}
