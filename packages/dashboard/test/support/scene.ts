/**
 * A typical state of a small fleet, created through the worker API: some agents work, some wait, one asks a question;
 * tasks in every stage. For screenshots.
 */
import { project, type RealServer } from './real-server.js'

export interface Scene {
  /** A turn with steps, tools, a child and a file. */
  readonly turn: string
}

const agents = ['coder-1', 'coder-2', 'researcher', 'reviewer', 'tester', 'writer']

export async function atWork(server: RealServer): Promise<Scene> {
  for (const agent of agents) await server.play(agent)
  const beat = async (agent: string, instruction: string, body: object) => {
    const id = await server.run(agent, instruction)
    const { turn_epoch, lease_token } = await server.claim()
    await server.ask('POST', `/turns/${id}/beat`, { turn_epoch, lease_token, ...body })
  }
  await beat('coder-1', 'Make the import faster.', { activity: 'executing_tool', current_tool: 'edit_file' })
  await beat('tester', 'Try the nightly build.', { activity: 'thinking' })
  for (const what of ['Try it on a small machine.', 'Try it without a network.']) await server.run('tester', what)
  const { turn } = await review(server)
  await server.run('approver', 'Ship the release today?')

  const task = (title: string, more: object) => server.ask('POST', '/board/tasks', { title, ...more })
  // Without evidence: the board rejects it, and the recovery policy selects the next assignee.
  await task('Measure the cold start', { agent: 'greeter', priority: 2 })
  await task('Publish the handbook', { agent: 'scribe', requiresApproval: true })
  await task('Announce it', { agent: 'writer', dependencies: ['T-3'] })
  await task('Draft the announcement', { agent: 'writer', priority: 4 })
  const { agent_turn_id: id, turn_epoch, lease_token } = await server.claim()
  await server.ask('POST', `/turns/${id}/beat`, { turn_epoch, lease_token, activity: 'thinking' })
  return { turn }
}

/** Two steps, one tool with a result, one without, and an ended child. */
async function review(server: RealServer): Promise<{ readonly turn: string }> {
  const budget = { max_tokens: 20_000, max_cost_micros: 500_000 }
  const turn = await server.run('reviewer', 'Review the login change, and say whether it can go out today.', { budget })
  let { turn_epoch, lease_token } = await server.claim()
  const say = (phase: string, tokens: number, text: string) =>
    server.ask('POST', `/turns/${turn}/steps`, {
      turn_epoch,
      lease_token,
      step: { phase, status: 'success', metadata: { usage: { total_tokens: tokens }, cost_micros: tokens * 3 } },
      cards: [{ type: 'agent.thought', content: { text } }],
    })
  const suspend = (calls: readonly object[]) =>
    server.ask('POST', `/turns/${turn}/suspend`, {
      turn_epoch,
      lease_token,
      calls: calls.map((call, at) => ({ tool_call_id: `${turn}-${turn_epoch}-${at}`, ...call })),
    })
  await say('think', 1_840, 'The change touches sessions. I will ask for a second review, and run the tests.')
  const tasks = [{ target_strategy: 'reuse', target_ref: 'greeter', instruction: 'Review the session code.' }]
  await suspend([{ tool_name: 'fork_join', batch: { tasks, deadline_seconds: 60 } }])
  ;({ turn_epoch, lease_token } = await server.claim())
  await say('think', 2_310, 'The second review found nothing. Now the tests.')
  const started = { tool_call_id: `${turn}-tests`, tool_name: 'run_tests', timeout_seconds: 900 }
  await suspend([{ ...started, arguments: { suite: 'login' } }])
  await server.ask('POST', `/projects/${project}/tool-calls/${turn}-tests/start`, { host: 'ci-7' })
  return { turn }
}
