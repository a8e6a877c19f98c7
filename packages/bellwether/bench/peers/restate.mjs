/**
 * Restate, tuned: persistent connections to its ingress, no log line per invocation, four partitions instead of 24 (faster in two of three
 * bulk rounds on two cores, equal otherwise), and bulk as one durable call whose handler sends the 500 jobs (5 to 100 % faster than 500
 * requests). A job is finished when its invocation is completed. The server cannot hold work back, so filling and draining are measured
 * together.
 */
import './promise-with-resolvers.mjs'
import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import * as restate from '@restatedev/restate-sdk'
import { expectCount, measurePeer } from './child.mjs'
import { freePorts, startRestate } from './restate-server.mjs'

const jsonType = { 'content-type': 'application/json', accept: 'application/json' }

await measurePeer(async ({ folder, ran }) => {
  const noop = restate.service({ name: 'noop', handlers: { run: async (_, job) => ran(job) } })
  const send = (ctx, jobs) => jobs.forEach((job) => ctx.serviceSendClient(noop).run(job))
  const bulk = restate.service({ name: 'bulk', handlers: { run: async (ctx, jobs) => send(ctx, jobs) } })

  const [port] = await freePorts(1)
  const endpoint = http2.createServer(restate.createEndpointHandler({ services: [noop, bulk], logger: () => {} }))
  const sessions = new Set()
  endpoint.on('session', (session) => sessions.add(session))
  endpoint.listen(port, '127.0.0.1')
  await once(endpoint, 'listening')
  const server = await startRestate(folder)
  const admin = async (path, body) => {
    const answer = await fetch(`${server.adminUrl}${path}`, {
      method: 'POST',
      headers: jsonType,
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`restate refused ${path}: ${await answer.text()}`)
    return answer.json()
  }
  const agent = new http.Agent({ keepAlive: true })
  const close = async () => {
    agent.destroy()
    await server.stop()
    for (const session of sessions) session.destroy()
    endpoint.close()
  }
  const count = async (where) => {
    const query = `select count(1) as found from sys_invocation where ${where}`
    return Number((await admin('/query', { query })).rows[0].found)
  }
  try {
    await admin('/deployments', { uri: `http://127.0.0.1:${port}` })
  } catch (error) {
    await close()
    throw error
  }
  return {
    pausable: false,
    bulkCallers: 4,
    enqueueMany: (jobs) => post(agent, server.ingressPort, '/bulk/run/send', jobs),
    enqueueOne: (job) => post(agent, server.ingressPort, '/noop/run/send', job),
    startWorker: async () => {},
    stopWorker: async () => {},
    unfinished: () => count(`status <> 'completed'`),
    settle: async () => {},
    verify: async (total) =>
      expectCount('completed invocations', await count(`target_service_name = 'noop' and status = 'completed'`), total),
    close,
  }
})

/** node:http rather than fetch, which made single sends 17 to 25 % slower. */
function post(agent, port, path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host: '127.0.0.1', port, path, method: 'POST', agent, headers: jsonType },
      (answer) => {
        answer.resume().on('error', reject)
        answer.on('end', () =>
          answer.statusCode < 300 ? resolve() : reject(new Error(`${path}: ${answer.statusCode}`)),
        )
      },
    )
    request.on('error', reject)
    request.end(JSON.stringify(body))
  })
}
