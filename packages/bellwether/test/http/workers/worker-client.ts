/** A worker over HTTP for tests, with a worker target of its own per test. */
import { beforeEach } from 'vitest'
import { project } from '../../support/kernel.js'
import { type Body, type Response, type TestServer } from '../test-server.js'

const p = `/projects/${project}`

export function workerClient(server: TestServer) {
  let round = 0
  beforeEach(() => void (round += 1))
  const target = () => `py-${round}`
  const as = () => ({ key: server.keys.worker })
  return {
    /** Distinguishes the names of this test. */
    round: () => round,
    target,
    as,
    agent: async (name: string, more: object = {}): Promise<string> => {
      const agentId = `${name}-${round}`
      await server.request('PUT', `${p}/agents/${agentId}`, { worker_target: target(), ...more })
      return agentId
    },
    enqueue: async (agentId: string, body: object = { instruction: 'do it' }): Promise<string> =>
      (await server.post(`${p}/agents/${agentId}/turns`, body)).body.agent_turn_id!,
    claim: async (body: object = {}): Promise<readonly Body[]> =>
      (await server.post(`/workers/${target()}/claim`, { max: 10, ...body }, as())).body.turns!,
    callWorkerApi: (turn: Body, what: string, body: object = {}): Promise<Response> =>
      server.post(
        `/turns/${turn.agent_turn_id}/${what}`,
        { turn_epoch: turn.turn_epoch, lease_token: turn.lease_token, ...body },
        as(),
      ),
    detail: async (turnId: string): Promise<Body> => (await server.get(`${p}/turns/${turnId}`)).body,
    counts: async () =>
      server.t
        .one(`select (select count(*) from cards.cards) as cards, (select count(*) from state.agent_steps) as steps,
        (select count(*) from state.events) as events, (select count(*) from state.turn_waiting_tools) as waits,
        (select count(*) from state.agent_inbox) as inbox, (select count(*) from state.reservations) as reservations,
        (select sum(tokens_used + tokens_reserved) from state.budgets) as spent`),
    /** Moves the clock and steps the server's watchdog once per interval. */
    pass: async (seconds: number): Promise<void> => {
      await server.watch.step()
      for (let left = seconds; left > 0; left -= 5) {
        await server.t.advance(5)
        await server.watch.step()
      }
    },
  }
}
