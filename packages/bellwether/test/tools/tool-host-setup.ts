/** A tool host on a real kernel, for tests: hosts that poll, calls that wait for them, and the results that their turns get. */
import { type Clock, defined, systemClock } from '@bellwether/base'
import { afterEach, expect } from 'vitest'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { Kernel } from '../../src/kernel/kernel.js'
import type { ToolCall } from '../../src/kernel/verbs/turn/suspend.js'
import { openCatalogue } from '../../src/worker/tools/catalogue.js'
import {
  openToolHost,
  type ToolHost,
  type ToolHostOptions,
  type ToolHostSettings,
} from '../../src/worker/tools/host.js'
import type { HostedTool } from '../../src/worker/tools/tool.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { waitsOf } from '../support/kernel-rows.js'
import { suspendedTurn } from '../support/kernel-turns.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'
import { silentBell } from '../support/silent-bell.js'

export const tool = (name: string, run: HostedTool['run'], more: Partial<HostedTool> = {}): HostedTool => ({
  name,
  description: name,
  parameters: { type: 'object' },
  run,
  ...more,
})

interface HostOptions {
  readonly kernel?: Partial<Kernel>
  readonly name?: string
  readonly settings?: Partial<ToolHostSettings>
  readonly mayAct?: ToolHostOptions['mayAct']
  readonly clock?: Clock
}

/** Checks that the host polls, finds no call and runs none. */
export const findsNothing = async (host: ToolHost) => expect([await host.step(), host.running]).toEqual([0, 0])

let count = 0
export const unique = (word: string) => `${word}-${(count += 1)}`

/** Opens a kernel for the tests of a file and closes its hosts after each test. */
export function toolHostTests() {
  const t = kernelPerFile({ time: 'real' })
  const hosts: { host: ToolHost; stop: AbortController }[] = []
  afterEach(async () => {
    for (const { host, stop } of hosts.splice(0)) {
      stop.abort()
      await host.close(0)
    }
  })

  return {
    get t() {
      return t
    },
    /** A host that polls every 20 ms; the test calls `beat` itself. */
    async hosting(
      tools: readonly HostedTool[],
      { kernel = {}, name = t.ids.next(), settings = {}, mayAct, clock = systemClock }: HostOptions = {},
    ) {
      const stop = new AbortController()
      const host = await openToolHost({
        kernel: { ...t.kernel, ...kernel },
        bell: silentBell,
        clock,
        log: quietLog,
        host: name,
        projectId: project,
        catalogue: openCatalogue(tools, []),
        signal: stop.signal,
        ...defined({ mayAct }),
        settings: { concurrency: 8, pollSeconds: 0.02, beatSeconds: 60, silentSeconds: 30, ...settings },
      })
      hosts.push({ host, stop })
      return host
    },
    /** A turn of a new agent that waits for `calls` calls of the tool. */
    async waitingFor(
      toolName: string,
      more: Partial<ToolCall> = {},
      calls = 1,
    ): Promise<{ turn: ClaimedTurn; ids: string[] }> {
      const agent = unique('agent')
      await t.agents(agent)
      const ids = Array.from({ length: calls }, () => unique('call'))
      const turn = await suspendedTurn(
        t,
        agent,
        ids.map((toolCallId) => ({ toolCallId, toolName, args: { id: toolCallId }, ...more })),
      )
      return { turn, ids }
    },
    /** The results of the turn's calls, once all are reported and claimed. */
    resultsOf: (turn: ClaimedTurn) =>
      until('every call has a result', async () => {
        await t.claim()
        const results = await t.kernel.readResults(turn.agentTurnId)
        return results.length === (await waitsOf(t, turn.agentTurnId)).length ? results : undefined
      }),
  }
}
