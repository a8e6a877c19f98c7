/** Suites and a run for the Evals pages, with the texts of hostile agents. */
import type { ResponseOf } from '@bellwether/protocol/http'
import { turnId } from './strings.js'

type Say = (text: string) => string

const startedAt = '2026-11-18T10:00:00.000Z'
export const runId = 'eval-run-1'
const casesAll = 120

const line = {
  run_id: runId,
  suite: 'support',
  status: 'done' as const,
  reason: null,
  requested_by: 'ann',
  created_at: startedAt,
  ended_at: '2026-11-18T10:05:00.000Z',
  results: casesAll * 2,
  done: casesAll * 2,
  passed: casesAll * 2 - 40,
  failed: 40,
  cost_micros: 412_000,
}
const variants = ['support', 'terse'] as const
const passes = (number: number, variant: string) => variant === 'support' || number % 3 !== 0

export const evalsOf = (say: Say, isEmpty: boolean): ResponseOf<'GET /projects/:project/evals'> => ({
  suites: isEmpty
    ? []
    : [
        {
          suite: 'support',
          description: say('Does the support agent name the time of a refund?'),
          problem: null,
          cases: casesAll,
          variants: variants.map((name) => ({ name, agent: 'support', runs: name, instructions: null, model: null })),
          checks: ['contains 30 days'],
          repeat: 1,
          max_cost_micros: 2_000_000,
          updated_at: startedAt,
          last_run: line,
        },
        {
          suite: 'broken',
          description: null,
          problem: say('evals/broken.toml:3: "repeat": must be a whole number (got "many")'),
          cases: 0,
          variants: [],
          checks: [],
          repeat: 1,
          max_cost_micros: null,
          updated_at: startedAt,
          last_run: null,
        },
      ],
})

export const evalRunsOf = (isEmpty: boolean): ResponseOf<'GET /projects/:project/eval-runs'> => ({
  runs: isEmpty ? [] : [line],
  cursor: null,
})

export const evalRunOf = (say: Say): ResponseOf<'GET /projects/:project/eval-runs/:run'> => ({
  ...line,
  description: null,
  max_cost_micros: 2_000_000,
  concurrency: 4,
  repeat: 1,
  cases: casesAll,
  variants: variants.map((variant) => {
    const failed = variant === 'support' ? 0 : 40
    return {
      variant,
      agent: 'support',
      results: casesAll,
      done: casesAll,
      passed: casesAll - failed,
      failed,
      cost_micros: 200_000,
      judge_cost_micros: 6_000,
      tokens: 120_000,
      duration_p50_ms: 1_240,
      duration_p95_ms: 4_810,
    }
  }),
  differing: ['case 0'],
  failing: [],
  comparison: {
    against: 'eval-run-0',
    compared: 240,
    regressions: [{ case: say('case 0'), variant: 'terse', before: '1/1', now: '0/1' }],
    improvements: [{ case: 'case 1', variant: 'terse', before: '0/1', now: '1/1' }],
    missing: [],
  },
})

const cellOf = (number: number, variant: string) => ({
  variant,
  repeat: 1,
  status: 'done' as const,
  passed: passes(number, variant),
  agent_turn_id: turnId(0),
  outcome: 'success' as const,
  error: null,
  cost_micros: 1_700,
  tokens: 1_000,
  duration_ms: 1_240,
})

export function evalCasesOf(
  say: Say,
  show: string,
  cursor: string | undefined,
): ResponseOf<'GET /projects/:project/eval-runs/:run/results'> {
  const from = cursor === undefined ? 0 : Number(cursor) + 1
  const all = Array.from({ length: casesAll }, (_, number) => number).filter(
    (number) => show === 'all' || number % 3 === 0,
  )
  const page = all.filter((number) => number >= from).slice(0, 100)
  return {
    cases: page.map((number) => ({
      number,
      case: number === 0 ? say('case 0') : `case ${number}`,
      differs: number % 3 === 0,
      results: variants.map((variant) => cellOf(number, variant)),
    })),
    cursor: page.at(-1) === all.at(-1) ? null : String(page.at(-1)),
  }
}

export const evalCaseOf = (
  say: Say,
  number: number,
): ResponseOf<'GET /projects/:project/eval-runs/:run/results/:number'> => ({
  number,
  case: `case ${number}`,
  instruction: say('How long do refunds take?'),
  turn: null,
  results: variants.map((variant) => ({
    ...cellOf(number, variant),
    output: variant === 'support' ? say('Hello.\nRefunds take 30 days.\nGoodbye.') : 'Hello.\nA month.\nGoodbye.',
    output_truncated: false,
    checks: [
      { check: 'outcome', kind: 'outcome', passed: true, reason: 'the turn succeeded', agent_turn_id: null },
      {
        check: 'contains 30 days',
        kind: 'contains',
        passed: passes(number, variant),
        reason: passes(number, variant) ? 'the output contains it' : 'the output does not contain "30 days"',
        agent_turn_id: null,
      },
      { check: 'judge reviewer', kind: 'judge', passed: true, reason: say('It is polite.'), agent_turn_id: turnId(0) },
    ],
  })),
})
