/**
 * Starts `bellwether view` from the build in a separate process, with a client for it. close() ends the process, also after a
 * failed measurement.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export const cli = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const startMaxMs = 30_000
const responseMaxMs = 60_000

export interface ViewServer {
  readonly url: string
  readonly key: string
  readonly pid: number
  ask(method: string, path: string, body?: Buffer | string): Promise<Buffer>
  close(): Promise<void>
}

export async function startViewServer(): Promise<ViewServer> {
  const child = spawn(process.execPath, [cli, 'view', '--view', 'bench', '--port', '0', '--persistent', '--json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stderr.on('data', (data: Buffer) => {
    output = (output + data.toString()).slice(-2_000)
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const close = async () => {
    agent.destroy()
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  try {
    const line = await Promise.race([
      once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(startMaxMs) }) as Promise<[string]>,
      once(child, 'exit').then(() => undefined),
    ])
    if (line === undefined) throw new Error(`bellwether view did not start: ${output}`)
    const { url, keys } = JSON.parse(line[0]) as { url: string; keys: Record<string, string> }
    const key = keys['bench']!
    return {
      url,
      key,
      pid: child.pid!,
      ask: (method, path, body) => ask(agent, method, `${url}/api/v1${path}`, key, body),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function ask(agent: Agent, method: string, url: string, key: string, body?: Buffer | string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string | number> = { 'x-api-key': key }
    if (body !== undefined) {
      headers['content-type'] = 'application/json'
      headers['content-length'] = Buffer.byteLength(body)
    }
    const outgoing = request(url, { agent, method, headers, timeout: responseMaxMs }, (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('error', reject)
      response.on('end', () => {
        const responseBody = Buffer.concat(pieces)
        if (response.statusCode! < 300) resolve(responseBody)
        else reject(new Error(`${method} ${url}: ${response.statusCode} ${responseBody.toString().slice(0, 400)}`))
      })
    })
    outgoing.on('error', reject)
    outgoing.on('timeout', () =>
      outgoing.destroy(new Error(`${method} ${url}: no response within ${responseMaxMs} ms`)),
    )
    outgoing.end(body)
  })
}
