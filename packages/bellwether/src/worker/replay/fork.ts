/**
 * Prepares a fork: the cards of a turn up to one of its steps, with ids of the new turn, and the waits that they answer. Pure. The text of cards
 * is never searched for ids: only the places where the kernel and the executors write ids are changed.
 */
import { objectOf } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { ForkEdit, Trail, TrailCard } from '@bellwether/protocol/http'
import type { Ids } from '../../ports/ids.js'
import type { Card, NewCard } from '../../kernel/verbs/cards.js'
import type { TurnFork } from '../../kernel/verbs/turn/fork_turn.js'
import { stepMark, summaryMark, type StepNote } from '../executors/model/transcript.js'
import { asCard, executorOf, pointsOf, workOf } from './trail-cards.js'

export type PreparedFork = Pick<TurnFork, 'agentTurnId' | 'cards' | 'waits' | 'context'>

/** Throws InvalidInput if the turn has no such step, or if the edit names a call that the fork does not keep. */
export function forkOf(trail: Trail, at: number, edit: ForkEdit | undefined, ids: Ids): PreparedFork {
  const cards = workOf(trail)
  const executor = executorOf(trail)
  const points = pointsOf(executor, cards)
  const point = points.find(({ step }) => step === at)
  if (point === undefined)
    throw new InvalidInput(`Cannot fork turn ${trail.turn.agent_turn_id} at step ${at}: the turn has no such step`, {
      code: 'unknown_step',
      hint: `its steps: ${points.map(({ step, title }) => `${step} (${title})`).join('; ')}`.slice(0, 2_000),
    })
  // Another run of the task may be working there.
  if (executor === 'command' && at === 0 && (trail.turn.payload['worktree'] ?? null) !== null)
    throw new InvalidInput(
      `Cannot run the program of turn ${trail.turn.agent_turn_id} again: its worktree belongs to a task`,
      {
        code: 'worktree_of_task',
        hint: 'try the task again: bellwether task retry; or fork at step 1, which delivers the stored result',
      },
    )
  const kept = cards.slice(0, point.end)
  const agentTurnId = ids.next()
  const rename = renaming(trail, kept, agentTurnId, ids)
  const results = new Map(Object.entries(edit?.results ?? {}))
  const copies = kept.map((card) => {
    const id = objectOf(card.content)['tool_call_id']
    const isEdited = card.type === 'tool.result' && typeof id === 'string' && results.has(id)
    const copy = rename.card(isEdited ? withResult(card, results.get(id)) : card)
    if (isEdited) results.delete(id)
    return copy
  })
  const [unknown] = results.keys()
  if (unknown !== undefined)
    throw new InvalidInput(
      `Cannot edit the result of call ${JSON.stringify(unknown)}: step ${at} of the turn does not have it`,
      { code: 'unknown_call', hint: `bellwether turn show ${trail.turn.agent_turn_id} lists the calls` },
    )
  const isKept = new Set(kept.map(({ card_id: id }) => id))
  return {
    agentTurnId,
    cards: copies,
    waits: trail.waits
      .filter(({ tool_result_card_id: id }) => id !== null && isKept.has(id))
      .map((wait) => ({
        stepId: rename.id(wait.step_id),
        toolCallId: rename.id(wait.tool_call_id),
        toolName: wait.tool_name,
        callCardId: wait.tool_call_card_id === null ? null : rename.id(wait.tool_call_card_id),
        resultCardId: rename.id(wait.tool_result_card_id!),
        afterExecution: wait.after_execution,
        idempotent: wait.idempotent,
      })),
    context: edit?.instruction === undefined ? undefined : withInstruction(trail.context, edit.instruction),
  }
}

/** New ids for the turn, its cards and its calls. An id that contains the id of the turn keeps its form. */
function renaming(trail: Trail, cards: readonly Card[], agentTurnId: string, ids: Ids) {
  const own = trail.turn.agent_turn_id
  const renamed = new Map<string, string>()
  const derived = (id: string) => {
    const known = renamed.get(id)
    if (known !== undefined) return known
    const next = id.includes(own) ? id.replaceAll(own, agentTurnId) : ids.next()
    renamed.set(id, next)
    return next
  }
  for (const card of cards) renamed.set(card.card_id, card.card_id.includes(own) ? derived(card.card_id) : ids.next())
  const note = (value: unknown) => {
    const one = value as StepNote
    const calls = one.calls.map((call) => ({ ...call, id: derived(call.id) }))
    return { ...one, step_id: derived(one.step_id), calls }
  }
  return {
    id: derived,
    card(card: Card): NewCard & { readonly cardId: string; readonly createdAt: Date } {
      const { metadata, type, role } = card
      const { tool_call_id: call, ...rest } = objectOf(card.content)
      const isCall = (type === 'tool.call' || type === 'tool.result') && typeof call === 'string'
      return {
        cardId: derived(card.card_id),
        type,
        role,
        content: isCall ? { ...rest, tool_call_id: derived(call) } : card.content,
        metadata: {
          ...metadata,
          agent_turn_id: agentTurnId,
          ...(typeof metadata['step_id'] === 'string' && { step_id: derived(metadata['step_id']) }),
          ...(metadata[stepMark] !== undefined && { [stepMark]: note(metadata[stepMark]) }),
          ...(metadata[summaryMark] !== undefined && { [summaryMark]: note(metadata[summaryMark]) }),
        },
        createdAt: card.created_at,
      }
    },
  }
}

const withResult = (card: Card, result: unknown): Card => ({
  ...card,
  content: { ...objectOf(card.content), status: 'success', error: null, result: result ?? null },
  metadata: { ...card.metadata, edited: true },
})

/** The last instruction is replaced; the other cards stay. */
function withInstruction(context: readonly TrailCard[], text: string): readonly NewCard[] {
  const at = context.findLastIndex(({ type }) => type === 'task.instruction')
  const cards = context.map(asCard).map(({ type, role, content, metadata }, index): NewCard => {
    return { type, role, content: index === at ? { text } : content, metadata }
  })
  return at < 0 ? [...cards, { type: 'task.instruction', role: 'user', content: { text } }] : cards
}
