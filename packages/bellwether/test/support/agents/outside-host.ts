/**
 * A tool host outside of any worker, as in docs/guides/tools.md: it receives commands on NATS, claims each call before it acts, acts and
 * reports. The PMO sends a command that it missed again until a host has started the call.
 */
import { errorMessage, systemClock } from '@bellwether/base'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import type { Kernel } from '../../../src/kernel/kernel.js'

export interface OutsideHost {
  /** The verdict on each received command. */
  readonly verdicts: string[]
  stop(): Promise<void>
}

export async function hostOutside(
  kernel: Kernel,
  natsUrl: string,
  tool: string,
  act: (args: unknown) => Promise<unknown>,
): Promise<OutsideHost> {
  const nats: NatsConnection = await connect({ servers: natsUrl })
  const host = `outside-${process.pid}-${kernel.ids.next()}`
  const verdicts: string[] = []

  async function answer(projectId: string, toolCallId: string): Promise<void> {
    const call = await kernel.startTool(projectId, toolCallId, host)
    verdicts.push(call?.what ?? 'unknown call')
    // Another host has claimed it, or no turn waits for it any more.
    if (call?.what !== 'started') return
    const beating = new AbortController()
    void (async () => {
      while (!beating.signal.aborted) {
        await systemClock.sleep(5_000, beating.signal)
        if (!beating.signal.aborted) await kernel.beatTools(projectId, [toolCallId], host)
      }
    })()
    const fence = { agentTurnId: call.agent_turn_id, turnEpoch: call.turn_epoch }
    try {
      const result = await act(call.arguments)
      await kernel.report([{ projectId, toolCallId, status: 'success', result, fence }])
    } catch (error) {
      const message = errorMessage(error)
      await kernel.report([{ projectId, toolCallId, status: 'failed', error: { code: 'tool_failed', message }, fence }])
    } finally {
      beating.abort()
    }
  }

  const working = new Set<Promise<void>>()
  const commands = nats.subscribe(`bw.v1.*.*.cmd.tool.${tool}.call`)
  const listening = (async () => {
    for await (const message of commands) {
      const { tool_call_id: toolCallId } = message.json<{ tool_call_id: string }>()
      const work: Promise<void> = answer(message.subject.split('.')[2]!, toolCallId).finally(() => working.delete(work))
      working.add(work)
    }
  })()
  await nats.flush()
  return {
    verdicts,
    async stop() {
      commands.unsubscribe()
      await listening
      await Promise.all(working)
      await nats.close()
    },
  }
}
