/**
 * Runs one Restate server per measurement: its binary from npm, on free loopback ports, in the given folder, with its default durability
 * (synced log) and without telemetry and web page. The process ends with ours at the latest. At its start it asks GitHub for its latest
 * release, which cannot be turned off, and continues without an answer.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'

const readyMaxMs = 20_000
const stopMaxMs = 5_000

export async function startRestate(folder) {
  const [node, ingress, admin] = await freePorts(3)
  const binary = createRequire(import.meta.url).resolve(
    `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`,
  )
  const args = [
    '--no-logo',
    '--listen-mode',
    'tcp',
    '--bind-ip',
    '127.0.0.1',
    '--bind-port',
    `${node}`,
    '--base-dir',
    folder,
  ]
  const child = spawn(binary, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      DO_NOT_TRACK: '1',
      RESTATE_DISABLE_TELEMETRY: 'true',
      RESTATE_DEFAULT_NUM_PARTITIONS: '4',
      RESTATE_LOG_FILTER: 'error',
      RESTATE_ADMIN__DISABLE_WEB_UI: 'true',
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_ADVERTISED_HOST: '127.0.0.1',
    },
  })
  process.on('exit', () => child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const stop = async () => {
    child.kill('SIGTERM')
    const force = setTimeout(() => child.kill('SIGKILL'), stopMaxMs)
    await ended
    clearTimeout(force)
  }
  const server = { ingressPort: ingress, adminUrl: `http://127.0.0.1:${admin}`, stop }
  try {
    await healthy(`http://127.0.0.1:${ingress}/restate/health`, child)
    await healthy(`${server.adminUrl}/health`, child)
  } catch (error) {
    await stop()
    throw error
  }
  return server
}

async function healthy(url, child) {
  const until = performance.now() + readyMaxMs
  for (;;) {
    // Refused connections are how a server that is still starting answers; anything else shows as the deadline passes.
    const answer = await fetch(url).catch((error) => error)
    if (answer instanceof Response && answer.ok) return
    if (child.exitCode !== null) throw new Error(`restate-server ended with code ${child.exitCode}`)
    if (performance.now() > until)
      throw new Error(`restate-server was not ready after ${readyMaxMs} ms`, { cause: answer })
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Held open together, so that they differ; another process could still take one before the server does. */
export async function freePorts(count) {
  const held = []
  for (let at = 0; at < count; at += 1) {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    held.push(server)
  }
  const ports = held.map((server) => server.address().port)
  for (const server of held) server.close()
  await Promise.all(held.map((server) => once(server, 'close')))
  return ports
}
