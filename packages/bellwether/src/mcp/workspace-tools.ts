/** Tools for the workspace and for people: find files, list and answer the questions of agents. */
import { defined } from '@bellwether/base'
import type { Entry } from '@bellwether/protocol/http'
import { z } from 'zod'
import { answerQuestion } from '../client/questions.js'
import { fitting } from './bounded.js'
import { tool, type Tool } from './tool.js'

export function workspaceTools(defaultView: string): readonly Tool[] {
  return [
    tool({
      name: 'search_workspace',
      title: 'Search the workspace',
      description:
        'Finds files and directories of the live workspace by name: a part of a name, or a glob such as *.ts or /src/**/*.md. It searches names, not contents.',
      readOnly: true,
      input: z.strictObject({
        pattern: z.string().min(1).max(1_024),
        path: z.string().min(1).max(4_096).optional().describe('search only below this directory, such as /src'),
        view: z.string().min(1).max(64).default(defaultView).describe('the view to search'),
        limit: z.number().int().min(1).max(1_000).default(100),
      }),
      run: async ({ view, ...query }, { client, signal }) => {
        const found = await client.ask('GET /views/:view/search', { params: { view }, query, signal })
        const { shown, left } = fitting(found.results.map(entryOf))
        const more = left > 0 || found.truncated ? ' There are more: use a narrower pattern or path.' : ''
        return { summary: `${shown.length} entries.${more}`, data: shown }
      },
    }),
    tool({
      name: 'list_questions',
      title: 'List questions',
      description: 'Lists the open questions of agents to people, oldest first, each with the deadline for its answer.',
      readOnly: true,
      input: z.strictObject({ limit: z.number().int().min(1).max(500).default(50) }),
      run: async (query, { client, signal }) => {
        const { questions } = await client.ask('GET /projects/:project/questions', { query, signal })
        const { shown, left } = fitting(
          questions.map((one) => ({
            question: one.tool_call_id,
            agent: one.agent_id,
            turn: one.agent_turn_id,
            asked_at: one.asked_at,
            answer_by: one.deadline,
            arguments: one.arguments ?? {},
          })),
        )
        const more = left > 0 ? ` ${left} more did not fit: use a smaller limit, or answer these first.` : ''
        return { summary: shown.length === 0 ? 'No open questions.' : `${shown.length} questions.${more}`, data: shown }
      },
    }),
    tool({
      name: 'answer_question',
      title: 'Answer a question',
      description:
        'Answers a question of an agent to a person, or declines it, so that the next person is asked. Answer only what the person you speak for has decided: it counts as their answer.',
      readOnly: false,
      input: z.strictObject({
        question: z.string().min(1).max(500).describe('the id of the question, from list_questions'),
        answer: z.string().min(1).max(100_000).optional().describe('text, or one of the choices'),
        fields: z
          .record(z.string(), z.unknown())
          .optional()
          .describe('if the question requests fields: their values by name'),
        decline: z.boolean().default(false),
        reason: z.string().min(1).max(2_000).optional().describe('why it is declined'),
      }),
      run: async ({ question, answer, fields, decline, reason }, { client, signal }) => {
        const answers = [answer, fields].filter((one) => one !== undefined)
        if (decline ? answers.length > 0 : answers.length !== 1)
          return { summary: 'Nothing was sent. Give answer, or fields, or decline: exactly one of them.' }
        const reply = decline ? { declined: reason ?? 'declined' } : { answer: answers[0] }
        const { status } = await answerQuestion(client, question, reply, signal)
        return {
          summary:
            status === 'reported'
              ? `${decline ? 'Declined' : 'Answered'}. If the server rejects the answer, the question is asked again: see list_questions.`
              : 'This question is no longer open: nothing changed.',
        }
      },
    }),
  ]
}

type Found = Pick<
  Entry,
  'path' | 'content_type' | 'size' | 'modified_time' | 'integrity_suspect' | 'agent_missing' | 'unreadable'
>

function entryOf({
  path,
  content_type: type,
  size,
  modified_time: at,
  integrity_suspect,
  agent_missing,
  unreadable,
}: Found): object {
  return {
    path,
    type,
    size,
    modified_at: at !== undefined && Math.abs(at) < timeMax ? new Date(at * 1_000).toISOString() : at,
    ...defined({
      may_be_incomplete: integrity_suspect || undefined,
      blind_spot: agent_missing || undefined,
      unreadable,
    }),
  }
}

// The largest time that a Date supports; files may have any mtime.
const timeMax = 8.64e12
