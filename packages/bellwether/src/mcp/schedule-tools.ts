/** Tools for schedules: list them with their next instants and last results, run one now, pause and resume one. */
import type { Fire } from '@bellwether/protocol/http'
import { z } from 'zod'
import { tool, type Tool } from './tool.js'

const name = z.string().min(1).max(64).describe('the name of a schedule, from list_schedules')
const pageMax = 100
const historyMax = 20

export const scheduleTools: readonly Tool[] = [
  tool({
    name: 'list_schedules',
    title: 'List schedules',
    description: 'Lists the schedules that start turns and tasks: when, what, the next instants, the last result.',
    readOnly: true,
    input: z.strictObject({ after: z.string().max(64).default('').describe('the last name of an earlier page') }),
    async run({ after }, { client }) {
      const query = { cursor: after, limit: pageMax }
      const { schedules, cursor } = await client.ask('GET /projects/:project/schedules', { query })
      const more = cursor === null ? '' : `; more follow after ${JSON.stringify(cursor)}`
      return { summary: `${schedules.length} schedules${more}`, data: schedules }
    },
  }),
  tool({
    name: 'read_schedule',
    title: 'Read a schedule',
    description: 'Reads a schedule and what its last instants started.',
    readOnly: true,
    input: z.strictObject({ schedule: name }),
    async run({ schedule }, { client }) {
      const params = { schedule }
      const found = await client.ask('GET /projects/:project/schedules/:schedule', { params })
      const query = { limit: historyMax }
      const { fires } = await client.ask('GET /projects/:project/schedules/:schedule/fires', { params, query })
      const state = found.paused_at === null ? 'active' : 'paused'
      return { summary: `schedule ${schedule} is ${state}`, data: { ...found, history: fires } }
    },
  }),
  tool({
    name: 'run_schedule',
    title: 'Run a schedule now',
    description: 'Starts the turn or task of a schedule now, also while it is paused. Read the turn with read_turn.',
    readOnly: false,
    input: z.strictObject({ schedule: name }),
    async run({ schedule }, { client, ids }) {
      const request = { params: { schedule }, idempotencyKey: ids.next() }
      return { summary: startedText(await client.ask('POST /projects/:project/schedules/:schedule/run', request)) }
    },
  }),
  tool({
    name: 'pause_schedule',
    title: 'Pause or resume a schedule',
    description: 'Pauses a schedule, or resumes it from its next instant on.',
    readOnly: false,
    input: z.strictObject({ schedule: name, paused: z.boolean().default(true).describe('false: resume it') }),
    async run({ schedule, paused }, { client }) {
      const params = { schedule }
      if (paused) await client.ask('POST /projects/:project/schedules/:schedule/pause', { params })
      else await client.ask('POST /projects/:project/schedules/:schedule/resume', { params })
      return { summary: `schedule ${schedule} is ${paused ? 'paused' : 'active'}` }
    },
  }),
]

function startedText({ status, agent_turn_id: turn }: Fire): string {
  if (turn !== null) return `started turn ${turn}`
  return status === 'waiting' ? 'the autopilot adds the task within seconds' : `the schedule could not start: ${status}`
}
