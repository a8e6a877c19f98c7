/** Sessions of coding agents whose programs run in a sandbox: its home folder is a new one per turn, and the sessions of an agent stay. */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { findSandbox } from '../../../src/ports/processes/sandbox/available.js'
import { openSandbox } from '../../../src/ports/processes/sandbox/sandbox.js'
import { presetNames } from '../../../src/worker/executors/presets.js'
import { onPath } from '../../support/agents/coding-agents.js'
import { testFolder } from '../../support/postgres.js'
import { quietLog } from '../../support/quiet-log.js'
import { openCommandSetup } from '../command-setup.js'
import { mayWrite, pausedProgram, sessionOf } from './paused-program.js'

const hasSandbox = findSandbox().kind !== undefined
onPath()

async function sandboxedSetup() {
  const data = await testFolder()
  onTestFinished(() => rm(data, { recursive: true, force: true }))
  const setup = await openCommandSetup({
    sandbox: (root) =>
      openSandbox({
        ...{ log: quietLog, root, fallback: 'workspace', missing: 'refuse' },
        ...{ sessions: join(data, 'sessions'), hidden: [], control: [] },
      }),
  })
  onTestFinished(() => setup.close())
  return setup
}

describe.runIf(hasSandbox).each(presetNames)('the session of %s in a sandbox', (preset) => {
  it('is resumed by the next turn of the same session, and by the worker that takes a turn over', async () => {
    const b = await sandboxedSetup()
    const spec = { preset, args: mayWrite[preset] }
    const more = { agentId: `sandboxed-${preset}`, sessionId: 'talk' }
    const instruction = 'Remember the word heron. Answer OK.\nstand-in: write made.txt'
    await b.ended(await b.begin(spec, { ...more, instruction }))
    expect(existsSync(join(b.folder, 'made.txt'))).toBe(true)
    const second = await b.begin(spec, { ...more, instruction: 'Which word? Answer with the word.' })
    expect(await b.ended(second)).toMatchObject({ outcome: 'success', text: expect.stringMatching(/heron/i) })
    expect(await sessionOf(b, second)).toMatchObject({ resumed: true })

    const { turn, die, release } = await pausedProgram(b, preset, ['3'], true)
    await die()
    await release('3')
    await b.reclaimed()
    await b.worker.step()
    const done = await b.ended(turn)
    expect(done).toMatchObject({ outcome: 'success', taskEvents: 1 })
    const { usage, session } = done.steps.at(-1)!.metadata as { usage: { total_tokens: number }; session: object }
    expect(session).toMatchObject({ resumed: true })
    // Of 209,000 tokens: the calls 3, 4 and 5. Codex reports its usage at the end, for all of its session.
    const used = preset === 'codex' ? [209_000, 209_000] : [1, 120_000]
    expect(usage.total_tokens).toBeGreaterThanOrEqual(used[0]!)
    expect(usage.total_tokens).toBeLessThanOrEqual(used[1]!)
  })
})
