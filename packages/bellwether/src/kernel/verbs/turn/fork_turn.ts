/**
 * Starts a turn with cards of an earlier one: its output box, its settled waits and its queue entry are written in one transaction. The earlier
 * turn does not change. The fork has an output box of its own, so that neither the memory nor the session of its agent contains it.
 */
import { defined } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Trail } from '@bellwether/protocol/http'
import type { Database, Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardRow, type NewCard } from '../cards.js'
import { enqueue, turnRow, type Enqueued, type EnqueueVerdict } from './enqueue.js'
import { say } from '../content/messages.js'

export interface TurnFork {
  readonly agentTurnId: string
  /** Repeating the call with the same id changes nothing. */
  readonly inboxId?: string | undefined
  readonly source: Trail['turn']
  /** The step after which the fork begins. */
  readonly at: number
  /** With their new ids. */
  readonly cards: readonly NewCard[]
  readonly waits: readonly ForkedWait[]
  /** Replaces the context box of the source. */
  readonly context?: readonly NewCard[] | undefined
  readonly message?: { readonly text: string; readonly sender: string } | undefined
}

interface ForkedWait {
  readonly stepId: string
  readonly toolCallId: string
  readonly toolName: string
  readonly callCardId: string | null
  readonly resultCardId: string
  readonly afterExecution: string
  readonly idempotent: boolean
}

export async function forkTurn(
  db: Database,
  ids: Ids,
  fork: TurnFork,
): Promise<{ readonly result: Enqueued; readonly verdicts: readonly EnqueueVerdict[] }> {
  const { source, agentTurnId, inboxId } = fork
  return db.transaction(async (tx) => {
    const known = inboxId === undefined ? undefined : await readForked(tx, inboxId)
    if (known !== undefined) return { result: { ...known, inboxId: inboxId!, duplicate: true }, verdicts: [] }
    const place = await readPlace(tx, source)
    const outputBoxId = ids.next()
    const contextBoxId = fork.context === undefined ? place.context_box_id : ids.next()
    await makeBoxes(tx, [
      {
        project_id: source.project_id,
        box_id: outputBoxId,
        kind: 'output',
        card_ids: place.memory,
        cards: fork.cards.map((card) => cardRow(ids, card)),
      },
      ...(fork.context === undefined
        ? []
        : [
            {
              project_id: source.project_id,
              box_id: contextBoxId,
              kind: 'context',
              cards: fork.context.map((card) => cardRow(ids, card)),
            },
          ]),
    ])
    const { continues: _continues, forked_from: _forkedFrom, imported_from: _imported, ...payload } = source.payload
    const row = turnRow(ids, {
      projectId: source.project_id,
      agentId: place.agent_id ?? source.agent_id,
      outputBoxId,
      source: { agentId: source.agent_id, agentTurnId: source.agent_turn_id },
      payload: {
        ...payload,
        forked_from: {
          agent_turn_id: source.agent_turn_id,
          step: fork.at,
          // What the fork knows of earlier turns ends where the memory of its source ended.
          created_at: source.created_at,
          ...defined({ session_id: source.session_id ?? undefined }),
        },
      },
      ...defined({ inboxId, contextBoxId: contextBoxId ?? undefined, channelId: place.channel_id ?? undefined }),
    })
    const { results, verdicts } = await enqueue(tx, [{ ...row, agent_turn_id: agentTurnId }])
    const [result] = results
    if (result === undefined || result instanceof InvalidInput) throw result ?? new Error('enqueue returned no result')
    await insertWaits(tx, fork)
    if (fork.message !== undefined)
      await say(tx, { projectId: source.project_id, agentTurnId, messageId: ids.next(), ...fork.message })
    return { result, verdicts }
  })
}

const makeBoxes = (tx: Queryable, boxes: readonly object[]) =>
  tx.query({ name: 'bw_make_boxes', text: 'select state.make_boxes($1::json)', values: [JSON.stringify(boxes)] })

async function readForked(tx: Queryable, inboxId: string) {
  const [row] = await tx.query<{ agent_turn_id: string; status: string }>({
    name: 'bw_read_forked',
    text: 'select i.agent_turn_id, i.status from state.agent_inbox i where i.inbox_id = $1',
    values: [inboxId],
  })
  return row && { agentTurnId: row.agent_turn_id, status: row.status }
}

interface Place {
  readonly context_box_id: string | null
  readonly channel_id: string | null
  /** The agent from which the agent of the source was made for one task: that one takes no other turn. Null: neither exists. */
  readonly agent_id: string | null
  /** The cards of the agent's box that the source knew, oldest first. */
  readonly memory: readonly string[]
}

async function readPlace(tx: Queryable, source: Trail['turn']): Promise<Place> {
  const [row] = await tx.query<Place>({
    name: 'bw_read_fork_place',
    text: `select i.payload ->> 'context_box_id' as context_box_id, i.channel_id,
        (select a.agent_id from resource.project_agents a where a.project_id = i.project_id and a.status = 'active'
          and (a.agent_id = i.agent_id or a.agent_id = i.payload ->> 'target_ref'
            -- An imported payload may name any agent: only an id that the kernel gave shows the origin.
            and i.agent_id = left(a.agent_id, 80) || '-' || i.agent_turn_id)
          order by a.agent_id = i.agent_id limit 1) as agent_id,
        array(select n.card_id from (
          select x.card_id, x.position from cards.box_cards x join cards.cards c on c.card_id = x.card_id
          where x.box_id = $2 and c.created_at < i.created_at
            and c.metadata ->> 'agent_turn_id' is distinct from i.agent_turn_id
          order by x.position desc limit (select m.cards from state.turn_memories m
            where m.agent_turn_id = i.agent_turn_id and m.memory = 'box')) n
          where exists (select from state.turn_memories m where m.agent_turn_id = i.agent_turn_id and m.memory = 'box')
          order by n.position) as memory
      from state.turn_row($1) i`,
    values: [source.agent_turn_id, source.output_box_id],
  })
  if (row === undefined) throw new Error(`turn ${source.agent_turn_id} disappeared while it was forked`)
  return row
}

/** Settled, so that an agent function gets the results of the last step that the fork keeps. */
async function insertWaits(tx: Queryable, { source, agentTurnId, waits }: TurnFork): Promise<void> {
  if (waits.length === 0) return
  await tx.query({
    name: 'bw_insert_forked_waits',
    text: `insert into state.turn_waiting_tools (project_id, agent_id, agent_turn_id, turn_epoch, step_id, tool_call_id,
        tool_name, wait_status, tool_result_card_id, tool_call_card_id, after_execution, idempotent, created_at)
      select $1, $2, $3, 0, x.step_id, x.tool_call_id, x.tool_name, 'applied', x.result_card_id, x.call_card_id,
        x.after_execution, x.idempotent, state.now()
      from rows from (jsonb_to_recordset($4::jsonb) as (step_id text, tool_call_id text, tool_name text,
        result_card_id text, call_card_id text, after_execution text, idempotent boolean)) with ordinality
        as x (step_id, tool_call_id, tool_name, result_card_id, call_card_id, after_execution, idempotent, ord)
      order by x.ord`,
    values: [
      source.project_id,
      source.agent_id,
      agentTurnId,
      JSON.stringify(
        waits.map((wait) => ({
          step_id: wait.stepId,
          tool_call_id: wait.toolCallId,
          tool_name: wait.toolName,
          result_card_id: wait.resultCardId,
          call_card_id: wait.callCardId,
          after_execution: wait.afterExecution,
          idempotent: wait.idempotent,
        })),
      ),
    ],
  })
}
