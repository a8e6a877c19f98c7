/**
 * The transcript of a model's turn, read from its cards alone, so that a takeover reads the same transcript. Pure. Only cards that
 * this executor or the kernel wrote for this turn count as steps; all other cards are context.
 */
import type { Card, NewCard } from '../../../kernel/verbs/cards.js'
import type { Fence } from '../../../kernel/verdict.js'
import { textOf } from '../../card-text.js'
import type { Refusal } from '../../submit-result.js'
import { exchangeOf } from '../repeats.js'

/** The metadata key of a card that is a step of the model. */
export const stepMark = 'model_step'
/** The metadata key of a card that summarises older cards. */
export const summaryMark = 'summary'

/** A call that the model made in a step. */
export interface StepCall {
  /** Unique in the project. */
  readonly id: string
  /** The id that the provider gave the call. */
  readonly provider_id: string
  readonly name: string
  readonly args?: unknown
  /** The arguments as received, if they are not a JSON object. */
  readonly raw?: string
  readonly extra?: Readonly<Record<string, unknown>>
}

/** The metadata of a step's card: what a later step, or a takeover, needs to continue. */
export interface StepNote {
  readonly step: number
  readonly step_id: string
  readonly calls: readonly StepCall[]
  readonly finish: string
  /** Prompt tokens: our estimate, and the provider's count. */
  readonly estimated: number
  readonly counted?: number
  /** A message to the model about its answer, in addition to the results of its calls. */
  readonly feedback?: { readonly code: string; readonly text: string }
  /** This step exceeded the budget: the turn ends with it. */
  readonly exceeded?: boolean
  /** Only on a summary: the fault codes of the newest summarised steps, null for a step without a fault. */
  readonly faults?: readonly (string | null)[]
  /** Only on a summary: the exchanges of the newest summarised steps. */
  readonly exchanges?: readonly string[]
}

export interface TranscriptStep {
  readonly note: StepNote
  readonly text: string
  /** Results by call id; a call without a result is absent. */
  readonly results: ReadonlyMap<string, Card>
  /** Calls that were sent or refused, that is, calls with a `tool.call` card. */
  readonly sent: ReadonlySet<string>
  readonly cardIds: readonly string[]
}

/** A message to the turn. */
interface ReceivedMessage {
  /** The number of the last step before it; 0: it came before the first. */
  readonly after: number
  readonly sender: string
  readonly text: string
  readonly cardId: string
}

export interface Transcript {
  /** Messages to the turn, in order. */
  readonly messages: readonly ReceivedMessage[]
  /** The ids of all cards of the turn, in order. */
  readonly cardIds: readonly string[]
  /** Cards of earlier turns, as the agent's memory allows. */
  readonly memory: readonly Card[]
  /** Replaces the compacted steps of this turn and the older memory. */
  readonly summary: Card | undefined
  readonly steps: readonly TranscriptStep[]
  /** The fault codes of the newest compacted steps. */
  readonly faults: readonly (string | null)[]
  /** One text per step, equal for steps with the same calls and results; the newest compacted steps first. */
  readonly exchanges: readonly string[]
  /** The number of the last step, even if it has been compacted. */
  readonly last: number
  /** A call exceeded the budget: the turn ends. */
  readonly exceeded: boolean
  /** The provider's tokens per estimated token; 1 until the provider has reported a count. */
  readonly factor: number
}

export function readTranscript({
  output: own,
  memory,
}: {
  readonly output: readonly Card[]
  readonly memory: readonly Card[]
}): Transcript {
  const results = new Map<string, Card>()
  const calls = new Map<string, Card>()
  for (const card of own) {
    const id = callIdOf(card)
    if (id === undefined) continue
    // The first card counts, as in the kernel.
    const byId = card.type === 'tool.result' ? results : calls
    if (!byId.has(id)) byId.set(id, card)
  }
  const summary = own.findLast((card) => card.metadata[summaryMark] !== undefined)
  const summaryNote = summary?.metadata[summaryMark] as StepNote | undefined
  const covered = summaryNote?.step ?? 0
  const byNumber = new Map<number, Card>()
  for (const card of own) {
    const note = noteOf(card)
    if (note !== undefined && note.step > covered && !byNumber.has(note.step)) byNumber.set(note.step, card)
  }
  const steps = [...byNumber.entries()]
    .sort(([left], [right]) => left - right)
    .map(([, card]) => stepOf(card, calls, results))
  const measured = steps.findLast((step) => (step.note.counted ?? 0) > 0 && step.note.estimated > 0)?.note
  const notes = [...steps.map((step) => step.note), ...(summaryNote === undefined ? [] : [summaryNote])]
  return {
    messages: messagesIn(own),
    cardIds: own.map((card) => card.card_id),
    // A summary of this turn includes the memory of earlier turns.
    memory: summary === undefined ? memory : [],
    summary,
    steps,
    faults: summaryNote?.faults ?? [],
    exchanges: [...(summaryNote?.exchanges ?? []), ...steps.map(stepExchange)],
    last: Math.max(covered, steps.at(-1)?.note.step ?? 0),
    exceeded: notes.some((note) => note.exceeded === true),
    factor: measured === undefined ? 1 : Math.min(3, Math.max(0.4, (measured.counted! / measured.estimated) * 1.05)),
  }
}

function messagesIn(own: readonly Card[]): ReceivedMessage[] {
  let after = 0
  return own.flatMap((card) => {
    after = Math.max(after, noteOf(card)?.step ?? 0, (card.metadata[summaryMark] as StepNote | undefined)?.step ?? 0)
    const message = card.metadata['message'] as { readonly sender?: string } | undefined
    if (card.type !== 'task.instruction' || message === undefined) return []
    return [{ after, sender: message.sender ?? '', text: textOf(card.content), cardId: card.card_id }]
  })
}

function stepOf(card: Card, calls: ReadonlyMap<string, Card>, results: ReadonlyMap<string, Card>): TranscriptStep {
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

/** What the step called and got, without the ids of its calls. */
function stepExchange({ note, results }: TranscriptStep): string {
  const calls = note.calls.map(({ id, name, args, raw }) => {
    const { status, result, error } = (results.get(id)?.content ?? {}) as Readonly<Record<string, unknown>>
    return [name, args ?? raw, status, result, error]
  })
  return exchangeOf(calls, note.feedback?.code)
}

function noteOf(card: Card): StepNote | undefined {
  return card.type === 'agent.thought' ? (card.metadata[stepMark] as StepNote | undefined) : undefined
}

function callIdOf({ type, content }: Card): string | undefined {
  if (type !== 'tool.result' && type !== 'tool.call') return undefined
  const id = (content as { readonly tool_call_id?: unknown } | null)?.tool_call_id
  return typeof id === 'string' ? id : undefined
}

/** A step's id follows from its position: a step that is repeated after a crash is the same row. */
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

/** The cards of a call that was refused: the same pair that the kernel writes for a call that was sent. */
export function refusedCards(turn: Fence, stepId: string, call: StepCall, refusal: Refusal): NewCard[] {
  const metadata = { agent_turn_id: turn.agentTurnId, step_id: stepId, refused: true }
  const names = { tool_call_id: call.id, tool_name: call.name }
  return [
    { type: 'tool.call', content: { ...names, arguments: call.args ?? { raw: call.raw ?? '' } }, metadata },
    {
      type: 'tool.result',
      role: 'tool',
      content: { ...names, status: 'failed', error: { code: refusal.code, message: refusal.message }, result: null },
      metadata,
    },
  ]
}
