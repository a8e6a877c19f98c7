/** Agents that repeat the same tool calls with the same results: models on a real kernel, and a program that prints what claude prints. */
import { chmod, mkdir } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ModelRequest } from '../../src/ports/model/model.js'
import { carriers, openCommandSetup, type CommandSetup } from './command-setup.js'
import { flawsIn, openModelSetup, type ModelSetup } from './model/model-setup.js'

describe('a model', () => {
  let b: ModelSetup
  let polls = 0
  beforeAll(async () => {
    b = await openModelSetup({
      tools: {
        status: () => 'still running',
        poll: () => `${(polls += 1)} of 20`,
        read: () => 'x'.repeat(20_000),
        other: () => null,
      },
    })
  })
  afterAll(() => b.close())

  const call = (name: string, args: object = {}) => ({ calls: [{ name, args }] })
  const warned = ({ messages }: ModelRequest) =>
    messages.filter(
      ({ role, ...message }) => role === 'user' && 'text' in message && /You have repeated/.test(message.text),
    ).length

  it('a model is warned after three equal calls and fails with no_progress after six', async () => {
    const warnings: number[] = []
    const model = b.script((request) => {
      expect(flawsIn(request)).toEqual([])
      warnings.push(warned(request))
      // The order of keys changes nothing.
      return call('status', warnings.length % 2 === 0 ? { id: 7, deep: true } : { deep: true, id: 7 })
    })
    const ended = await b.run({ model })
    expect(ended).toMatchObject({ outcome: 'failed', error: 'no_progress', taskEvents: 1 })
    expect(ended.text).toContain('repeated the same tool calls 6 times with the same results. The last: status.')
    expect(warnings).toEqual([0, 0, 0, 1, 2, 3])
  })

  it('fails when two calls alternate, and when the limit of its file is reached', async () => {
    const alternating = b.script((_request, turn) => call(turn % 2 === 0 ? 'status' : 'other'))
    const ended = await b.run({ model: alternating, budget: { max_repeats: 3 } })
    expect(ended).toMatchObject({ outcome: 'failed', error: 'no_progress' })
    expect(ended.steps).toHaveLength(6)
  })

  it('a model may poll as long as the answer changes, and may repeat a call after another one', async () => {
    const polling = b.script((_request, turn) => (turn < 20 ? call('poll') : { text: 'finished' }))
    expect(await b.run({ model: polling })).toMatchObject({ outcome: 'success', text: 'finished' })
    const working = b.script((_request, turn) => {
      if (turn === 16) return { text: 'finished' }
      return turn % 2 === 0 ? call('status') : call('other', { line: turn })
    })
    expect(await b.run({ model: working })).toMatchObject({ outcome: 'success', text: 'finished' })
  })

  it('a repeated call is counted across a compaction', async () => {
    const model = b.script((request) => (request.tools.length === 0 ? { text: 'a summary' } : call('read')))
    const ended = await b.run({ model, context_tokens: 12_000, max_output_tokens: 500 })
    expect(ended).toMatchObject({ outcome: 'failed', error: 'no_progress' })
    expect(ended.steps.map(({ phase }) => phase)).toContain('compact')
    expect(ended.steps.filter(({ phase }) => phase === 'model')).toHaveLength(6)
  })
})

describe('a coding agent', () => {
  let b: CommandSetup
  const path = process.env['PATH']
  beforeAll(async () => {
    b = await openCommandSetup()
    await mkdir(join(b.folder, 'bin'))
    // Runs one command 8 times. With "fail" it prints the same result each time and then waits for its end; with "heed" until it is warned.
    await b.write(
      'bin/claude',
      `#!/bin/sh
read -r how
event() { printf '{"type":"%s","message":{"role":"%s","content":[%s]}}\\n' "$1" "$1" "$2"; }
for i in 1 2 3 4 5 6 7 8; do
  event assistant '{"type":"tool_use","id":"toolu_'$i'","name":"Bash","input":{"command":"npm test"}}'
  case $how in *fail* | *heed*) out=failed ;; *) out="$i failed" ;; esac
  event user '{"type":"tool_result","tool_use_id":"toolu_'$i'","content":"'"$out"'"}'
  case $how$i in *heed*3) read -r line; case $line in *'same tool calls 3 times'*) how=work ;; esac ;; esac
done
case $how in *fail*) sleep 600 ;; esac
printf '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}\\n'
`,
    )
    await chmod(join(b.folder, 'bin/claude'), 0o755)
    process.env['PATH'] = `${join(b.folder, 'bin')}${delimiter}${path}`
  })
  afterAll(async () => {
    process.env['PATH'] = path
    await b.close()
  })

  it('a coding agent is stopped with no_progress after six equal tool events, and leaves no process', async () => {
    const done = await b.run({ preset: 'claude', instructions: 'fail' })
    expect(done).toMatchObject({ outcome: 'failed', error: 'no_progress', taskEvents: 1 })
    expect(done.text).toContain('was stopped because it repeated the same tool calls with the same results')
    expect(carriers(done.agent_turn_id!)).toEqual([])
  })

  it('a coding agent that reads messages while it runs is warned after three equal tool events, and goes on if it heeds this', async () => {
    const done = await b.run({ preset: 'claude', instructions: 'heed' })
    expect(done).toMatchObject({ outcome: 'success', text: 'done' })
    const notes = await b.t.all<{ content: string }>(
      `select content from state.transcript where agent_turn_id = $1 and content like 'Warning%'`,
      done.agent_turn_id,
    )
    expect(notes.map(({ content }) => content)).toEqual([expect.stringMatching(/^Warning to the agent: .* 3 times/)])
  })

  it('a coding agent is not stopped while its results change', async () => {
    expect(await b.run({ preset: 'claude', instructions: 'work' })).toMatchObject({ outcome: 'success', text: 'done' })
  })
})
