/** Tools for evaluations: list suites, start a run, read what it found. */
import { defined } from '@bellwether/base'
import { z } from 'zod'
import { tool, type Tool } from './tool.js'

const suite = z.string().min(1).max(40).describe('the name of a suite, from list_evals')

export const evalTools: readonly Tool[] = [
  tool({
    name: 'list_evals',
    title: 'List evaluation suites',
    description: 'Lists the evaluation suites of the project with their variants and last runs.',
    readOnly: true,
    input: z.strictObject({}),
    async run(_input, { client }) {
      const { suites } = await client.ask('GET /projects/:project/evals', {})
      return { summary: `${suites.length} suites`, data: suites }
    },
  }),
  tool({
    name: 'run_eval',
    title: 'Run an evaluation suite',
    description: 'Starts a run of a suite; it spends what its turns spend. Read it with read_eval.',
    readOnly: false,
    input: z.strictObject({
      suite,
      variants: z.array(z.string().min(1).max(40)).min(1).max(8).optional().describe('only these variants'),
      cases: z.array(z.string().min(1).max(100)).min(1).max(100).optional().describe('only these cases'),
    }),
    async run({ suite: name, ...body }, { client }) {
      const request = { params: { suite: name }, body: defined(body) }
      const run = await client.ask('POST /projects/:project/evals/:suite/runs', request)
      return { summary: `run ${run.run_id} has ${run.results} turns`, data: run }
    },
  }),
  tool({
    name: 'read_eval',
    title: 'Read a run of an evaluation suite',
    description:
      'Reads a run: pass rate, cost and time per variant, failed checks, differing cases, and what became worse since an earlier run.',
    readOnly: true,
    input: z.strictObject({
      run: z.string().min(1).max(500).describe('the id of a run'),
      against: z.string().min(1).max(500).optional().describe('the id of an earlier run, or "last"'),
    }),
    async run({ run, against }, { client }) {
      const query = defined({ against })
      const found = await client.ask('GET /projects/:project/eval-runs/:run', { params: { run }, query })
      return { summary: `${found.status}: ${found.passed} of ${found.done} passed`, data: found }
    },
  }),
]
