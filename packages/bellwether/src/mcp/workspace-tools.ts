/** Tools for the workspace and for people: find files, list what agents ask, answer it. */
import { z } from 'zod'
import type { Entry } from '@bellwether/protocol/http'
import { answerQuestion, readQuestions } from '../client/questions.js'
import { fitting } from './bounded.js'
import { tool, type Tool } from './tool.js'

export function workspaceTools(view: string): readonly Tool[] {
  return [
    tool({
      name: 'search_workspace',
      title: 'Search the workspace',
      description:
        'Finds files and directories of the live workspace by name: a part of a name, or a glob such as *.ts or /src/**/*.md. It searches names, not contents.',
      readOnly: true,
      input: z.strictObject({
        pattern: z.string().min(1).max(1_024),
        path: z.string().min(1).max(4_096).optional().describe('only below this directory, as /src'),
        view: z.string().min(1).max(64).default(view).describe('the view to ask'),
        limit: z.number().int().min(1).max(1_000).default(100),
      }),
      run: async ({ pattern, path, view: name, limit }, { client, signal }) => {
        const query = new URLSearchParams({ pattern, limit: String(limit), ...(path === undefined ? {} : { path }) })
        const found = await client.ask<{ readonly results: readonly Entry[]; readonly truncated: boolean }>(
          'GET',
          `/views/${encodeURIComponent(name)}/search?${query.toString()}`,
          { signal },
        )
        const { shown, left } = fitting(found.results.map(entryOf))
        const more = left > 0 || found.truncated ? ' There are more: ask for a narrower pattern or path.' : ''
        return { words: `${shown.length} entries.${more}`, data: shown }
      },
    }),
    tool({
      name: 'list_questions',
      title: 'List questions',
      description:
        'What agents ask people and still wait for, the oldest first, each with the time by which it must be answered.',
      readOnly: true,
      input: z.strictObject({ limit: z.number().int().min(1).max(500).default(50) }),
      run: async ({ limit }, { client, signal }) => {
        const questions = await readQuestions(client, limit, signal)
        const { shown, left } = fitting(
          questions.map(
            ({
              tool_call_id: question,
              agent_id: agent,
              agent_turn_id: turn,
              asked_at,
              deadline,
              arguments: asked,
            }) => ({
              question,
              agent,
              turn,
              asked_at,
              answer_by: deadline,
              asked,
            }),
          ),
        )
        const more = left > 0 ? ` ${left} more did not fit: ask with a smaller limit, answer these first.` : ''
        return {
          words: shown.length === 0 ? 'Nobody waits for a person.' : `${shown.length} questions.${more}`,
          data: shown,
        }
      },
    }),
    tool({
      name: 'answer_question',
      title: 'Answer a question',
      description:
        'Answers what an agent asked a person, or declines, so that the next person is asked. Answer only what the person you speak for has decided: their word counts as a person’s.',
      readOnly: false,
      input: z.strictObject({
        question: z.string().min(1).max(500).describe('the id of the question, as list_questions tells it'),
        answer: z.string().min(1).max(100_000).optional().describe('words, or one of the choices'),
        fields: z
          .record(z.string(), z.unknown())
          .optional()
          .describe('where fields are asked for: their values by name'),
        decline: z.boolean().default(false),
        reason: z.string().min(1).max(2_000).optional().describe('why it is declined'),
      }),
      run: async ({ question, answer, fields, decline, reason }, { client, signal }) => {
        const given = [answer, fields].filter((one) => one !== undefined)
        if (decline ? given.length > 0 : given.length !== 1)
          return { words: 'Nothing was sent. Give answer, or fields, or decline: exactly one of them.' }
        const reply = decline ? { declined: reason ?? 'declined' } : { answer: given[0] }
        const { status } = await answerQuestion(client, question, reply, signal)
        return {
          words:
            status === 'reported'
              ? `${decline ? 'Declined' : 'Answered'}. If the house refuses the answer, the question is asked again: see list_questions.`
              : 'Nobody waits for this answer any more: nothing happened.',
        }
      },
    }),
  ]
}

function entryOf({
  path,
  content_type: type,
  size,
  modified_time: at,
  integrity_suspect,
  agent_missing,
}: Entry): object {
  return {
    path,
    type,
    size,
    modified_at: typeof at === 'number' && Math.abs(at) < timeMax ? new Date(at * 1_000).toISOString() : at,
    ...(integrity_suspect === true ? { maybe_still_being_written: true } : {}),
    ...(agent_missing === true ? { changed_unseen: true } : {}),
  }
}

// Seconds that a date can hold; files may claim any.
const timeMax = 8.64e12
