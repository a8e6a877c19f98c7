/**
 * What a turn has done so far, read from its cards alone: whoever takes a turn over reads the same story. Pure. Only cards that
 * this executor or the kernel wrote for this very turn count as steps; everything else in the boxes is something to read.
 */
import type { Card, NewCard } from '../../../kernel/verbs/cards.js'
import type { Fence } from '../../../kernel/verdict.js'

/** In the metadata of a card that is a step of the model. */
export const stepMark = 'model_step'
/** In the metadata of a card that stands for older ones. */
export const summaryMark = 'summary'

/** A call that the model made in a step. */
export interface StepCall {
  /** Unique in the project. */
  readonly id: string
  /** What the provider knows it by. */
  readonly provider_id: string
  readonly name: string
  readonly args?: unknown
  /** Arguments that are no JSON, as they came. */
  readonly raw?: string
  readonly extra?: Readonly<Record<string, unknown>>
}

export interface Spent {
  readonly tokens: number
  readonly cost_micros: number
  readonly work_ms: number
}

export const nothingSpent: Spent = { tokens: 0, cost_micros: 0, work_ms: 0 }

/** What a step's card says of it, for whoever goes on from there. */
export interface StepNote {
  readonly step: number
  readonly step_id: string
  readonly calls: readonly StepCall[]
  readonly finish: string
  /** What the turn has spent up to here. */
  readonly spent: Spent
  /** Tokens of the prompt as estimated, and as the provider counted them. */
  readonly estimated: number
  readonly counted?: number
  /** What the model is told about its answer, besides the results of its calls. */
  readonly told?: { readonly code: string; readonly text: string }
  /** The budget was crossed by this step: the turn ends with it. */
  readonly exceeded?: boolean
  /** Of a summary: what was wrong with the newest of the steps it stands for; null: nothing. */
  readonly faults?: readonly (string | null)[]
}

export interface StoryStep {
  readonly note: StepNote
  readonly text: string
  /** By the call's id: what came of it; absent where nothing has. */
  readonly results: ReadonlyMap<string, Card>
  /** Calls that were sent, or refused: their tool.call card is there. */
  readonly sent: ReadonlySet<string>
  readonly cardIds: readonly string[]
}

export interface Story {
  /** What the agent wrote in earlier turns. */
  readonly memory: readonly Card[]
  /** Stands for the steps of this turn that are not in it any more, and for older memory. */
  readonly summary: Card | undefined
  readonly steps: readonly StoryStep[]
  /** What was wrong with the newest steps that are not in it any more. */
  readonly faults: readonly (string | null)[]
  /** The number of the last step, whether its card is still there or not. */
  readonly last: number
  readonly spent: Spent
  /** A call crossed the budget: the turn ends. */
  readonly exceeded: boolean
  /** Real tokens for each estimated one, as far as is known. */
  readonly factor: number
}

export function readStory(output: readonly Card[], turn: Fence): Story {
  const own = output.filter((card) => card.metadata['agent_turn_id'] === turn.agentTurnId)
  const results = new Map<string, Card>()
  const calls = new Map<string, Card>()
  for (const card of own) {
    const id = callIdOf(card)
    if (id === undefined) continue
    // The first one counts, as it does for the kernel.
    const book = card.type === 'tool.result' ? results : calls
    if (!book.has(id)) book.set(id, card)
  }
  const summary = own.findLast((card) => card.metadata[summaryMark] !== undefined)
  const summed = summary?.metadata[summaryMark] as StepNote | undefined
  const covered = summed?.step ?? 0
  const byNumber = new Map<number, Card>()
  for (const card of own) {
    const note = noteOf(card)
    if (note !== undefined && note.step > covered && !byNumber.has(note.step)) byNumber.set(note.step, card)
  }
  const steps = [...byNumber.entries()]
    .sort(([left], [right]) => left - right)
    .map(([, card]) => stepOf(card, calls, results))
  const measured = steps.findLast((step) => (step.note.counted ?? 0) > 0 && step.note.estimated > 0)?.note
  const notes = [...steps.map((step) => step.note), ...(summed === undefined ? [] : [summed])]
  return {
    // A summary of this turn stands for what the agent remembered, too.
    memory: summary === undefined ? output.filter((card) => card.metadata['agent_turn_id'] !== turn.agentTurnId) : [],
    summary,
    steps,
    faults: summed?.faults ?? [],
    last: Math.max(covered, steps.at(-1)?.note.step ?? 0),
    spent: notes.reduce((most, note) => larger(most, note.spent), nothingSpent),
    exceeded: notes.some((note) => note.exceeded === true),
    factor: measured === undefined ? 1 : Math.min(3, Math.max(0.4, (measured.counted! / measured.estimated) * 1.05)),
  }
}

/** Sums only grow: the largest is the latest, whichever card holds it. */
function larger(left: Spent, right: Spent): Spent {
  return {
    tokens: Math.max(left.tokens, right.tokens),
    cost_micros: Math.max(left.cost_micros, right.cost_micros),
    work_ms: Math.max(left.work_ms, right.work_ms),
  }
}

function stepOf(card: Card, calls: ReadonlyMap<string, Card>, results: ReadonlyMap<string, Card>): StoryStep {
  const note = noteOf(card)!
  const found = note.calls.flatMap(({ id }) => {
    const result = results.get(id)
    return result === undefined ? [] : [[id, result] as const]
  })
  const sent = note.calls.filter(({ id }) => calls.has(id)).map(({ id }) => id)
  return {
    note,
    text: textOf(card.content),
    results: new Map(found),
    sent: new Set(sent),
    cardIds: [card.card_id, ...sent.map((id) => calls.get(id)!.card_id), ...found.map(([, result]) => result.card_id)],
  }
}

function noteOf(card: Card): StepNote | undefined {
  return card.type === 'agent.thought' ? (card.metadata[stepMark] as StepNote | undefined) : undefined
}

function callIdOf({ type, content }: Card): string | undefined {
  if (type !== 'tool.result' && type !== 'tool.call') return undefined
  const id = (content as { readonly tool_call_id?: unknown } | null)?.tool_call_id
  return typeof id === 'string' ? id : undefined
}

export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (typeof content === 'object' && content !== null && 'text' in content && typeof content.text === 'string')
    return content.text
  return JSON.stringify(content, null, 2) ?? ''
}

/** Steps of a turn have the same ids whoever makes them: one that is made again after a crash is the same row. */
export function stepIdOf(turn: Fence, step: number): string {
  return `${turn.agentTurnId}-s${String(step).padStart(4, '0')}`
}

export const callIdAt = (stepId: string, index: number) => `${stepId}-c${index + 1}`

export function stepCard(turn: Fence, note: StepNote, text: string, thought: string): NewCard {
  return {
    type: 'agent.thought',
    content: thought === '' ? { text } : { text, thought },
    metadata: { agent_turn_id: turn.agentTurnId, step_id: note.step_id, [stepMark]: note },
  }
}

/** A call that was not sent, and why: the pair that a sent one has from the kernel. */
export function refusedCards(
  turn: Fence,
  stepId: string,
  call: StepCall,
  why: { readonly code: string; readonly message: string },
): NewCard[] {
  const metadata = { agent_turn_id: turn.agentTurnId, step_id: stepId, refused: true }
  const names = { tool_call_id: call.id, tool_name: call.name }
  return [
    { type: 'tool.call', content: { ...names, arguments: call.args ?? { raw: call.raw ?? '' } }, metadata },
    {
      type: 'tool.result',
      role: 'tool',
      content: { ...names, status: 'failed', error: { code: why.code, message: why.message }, result: null },
      metadata,
    },
  ]
}
