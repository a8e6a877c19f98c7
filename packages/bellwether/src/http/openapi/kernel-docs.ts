/** What the routes of agents, turns, tools, batches, cards and events answer. */
import { resultStatuses } from '@bellwether/protocol'
import { z } from 'zod'
import {
  anything,
  card,
  count,
  flag,
  list,
  maybe,
  name,
  outcome,
  pageOf,
  said,
  shape,
  time,
  turn,
  watched,
  wholeTurn,
  type Docs,
} from './doc.js'

const p = '/projects/:project'

const agent = shape({
  agent_id: name,
  profile_id: maybe(name),
  worker_target: name,
  status: said('active', 'retired'),
  metadata: anything,
  state: maybe(
    shape({
      status: name,
      active_agent_turn_id: maybe(name),
      turn_epoch: count,
      activity: maybe(name),
      current_tool: maybe(name),
      waiting_tool_count: count,
      resume_deadline: maybe(time),
      turn_deadline: maybe(time),
      leased_at: maybe(time),
      updated_at: time,
      output_box_id: maybe(name),
    }),
  ).describe('its head: what it is doing now'),
  queued: count.describe('turns in line; counted up to 1,000'),
  last_turn: maybe(shape({ agent_turn_id: name, outcome, ended_at: time })),
})

const batchLine = {
  batch_id: name,
  status: name,
  task_count: count,
  open_count: count,
  done_count: count,
  failed_count: count,
  deadline: maybe(time),
  created_at: time,
  ended_at: maybe(time),
  parent_agent_turn_id: maybe(name),
  tool_call_id: maybe(name),
}

const stopped = shape({ agent_turn_id: name, status: name })

export const kernelDocs: Docs = {
  'GET /projects': { answers: { 200: shape({ projects: list(shape({ project_id: name, created_at: time })) }) } },
  [`GET ${p}/workers`]: {
    answers: {
      200: shape({
        workers: list(
          shape({
            worker_id: name,
            worker_target: name,
            started_at: time,
            seen_at: time,
            last_claim_at: maybe(time),
            concurrency: maybe(count),
            free: maybe(count).describe('how many more turns it would take now'),
          }),
        ),
      }),
    },
  },
  [`GET ${p}/agents`]: { answers: { 200: pageOf('agents', agent) } },
  [`PUT ${p}/agents`]: { answers: { 200: shape({ count }) } },
  [`GET ${p}/agents/:agent`]: { answers: { 200: agent } },
  [`PUT ${p}/agents/:agent`]: { answers: { 200: agent } },
  [`PUT ${p}/profiles/:profile`]: { answers: { 200: shape({ profile_id: name }) } },
  [`PUT ${p}/tools/:tool`]: { answers: { 200: shape({ tool_name: name }) } },
  [`POST ${p}/agents/:agent/turns`]: {
    answers: { 202: shape({ agent_turn_id: name, inbox_id: name, status: name }) },
  },
  [`GET ${p}/turns`]: { answers: { 200: pageOf('turns', turn) } },
  [`GET ${p}/turns/:turn`]: { answers: { 200: wholeTurn } },
  [`POST ${p}/turns/:turn/stop`]: { answers: { 200: stopped } },
  [`POST ${p}/tool-calls/:call/result`]: { answers: { 202: shape({ tool_call_id: name, status: name }) } },
  [`POST ${p}/tool-calls/:call/start`]: {
    answers: {
      200: shape({
        tool_call_id: name,
        status: said('started', 'unknown', 'gone'),
        agent_id: name,
        agent_turn_id: name,
        turn_epoch: count,
        tool_name: name,
        arguments: z.unknown(),
        started_by: maybe(name),
      }),
    },
  },
  [`GET ${p}/questions`]: {
    answers: {
      200: shape({
        questions: list(
          shape({
            tool_call_id: name,
            agent_id: name,
            agent_turn_id: name,
            arguments: z.unknown(),
            asked_at: time,
            deadline: maybe(time),
          }),
        ),
      }),
    },
  },
  [`POST ${p}/ui-actions`]: {
    answers: {
      200: shape({ status: said('busy', 'rejected'), agent_turn_id: maybe(name) }).describe('nothing was written'),
      202: shape({ status: said('accepted'), agent_turn_id: maybe(name) }),
    },
  },
  [`POST ${p}/batches`]: { answers: { 202: shape({ batch_id: name, status: name }) } },
  [`GET ${p}/batches`]: { answers: { 200: pageOf('batches', shape(batchLine)) } },
  [`GET ${p}/batches/:batch`]: {
    answers: {
      200: shape({
        ...batchLine,
        project_id: name,
        parent_agent_id: maybe(name),
        parent_turn_epoch: maybe(count),
        parent_step_id: maybe(name),
        channel_id: maybe(name),
        traceparent: maybe(name),
        recursion_depth: count,
        fail_fast: flag,
        settled_at: maybe(time),
        tasks: list(
          shape({
            position: count,
            target_strategy: name,
            target_ref: name,
            agent_id: maybe(name),
            agent_turn_id: maybe(name),
            status: name,
            attempts: count,
            outcome: maybe(outcome),
            error: maybe(name),
            deliverable_card_id: maybe(name),
            content: z.unknown(),
            content_truncated: flag,
          }),
        ),
      }),
    },
  },
  [`GET ${p}/cards/:card`]: { answers: { 200: card } },
  [`GET ${p}/boxes/:box/cards`]: {
    answers: {
      200: shape({
        box_id: name,
        kind: said('context', 'output'),
        cards: list(card.extend({ position: count })),
        cursor: maybe(count),
      }),
    },
  },
  [`POST ${p}/boxes`]: { answers: { 201: shape({ box_id: name }) } },
  [`GET ${p}/events`]: { answers: { 200: 'text/event-stream' } },
  'GET /watchdog/interventions': { answers: { 200: pageOf('interventions', watched, maybe(count)) } },
}

const fence = { agent_turn_id: name, turn_epoch: count }

export const workerDocs: Docs = {
  'POST /workers/:target/claim': {
    answers: {
      200: shape({
        turns: list(
          shape({
            fence: shape(fence),
            ...fence,
            project_id: name,
            agent_id: name,
            kind: said('turn', 'resume'),
            taken_over: flag,
            message_type: name,
            inbox_id: name,
            channel_id: maybe(name),
            payload: anything,
            attempts: count,
            recursion_depth: count,
            traceparent: maybe(name),
            correlation_id: maybe(name),
            turn_deadline: maybe(time),
            beat_seconds: count,
            silent_seconds: count,
            profile: maybe(shape({ profile_id: name, name, spec: z.unknown() })),
            tools: list(anything),
            context_box_id: maybe(name),
            context: list(card),
            context_truncated: flag,
            output_box_id: maybe(name),
            output: list(card),
            output_truncated: flag,
            results: list(shape({ tool_call_id: name, status: z.enum(resultStatuses) })),
          }),
        ),
      }),
    },
  },
  'POST /turns/:turn/beat': { answers: { 200: shape({ status: said('alive') }) } },
  'POST /turns/:turn/steps': {
    answers: { 200: shape({ status: said('recorded'), step_id: maybe(name), card_ids: list(name) }) },
  },
  'POST /turns/:turn/suspend': {
    answers: { 200: shape({ status: name.describe('suspended, or already'), step_id: name }) },
  },
  'POST /turns/:turn/deliver': { answers: { 200: shape({ status: said('ended', 'already') }) } },
}
