/**
 * A real server: `bellwether up` as a child process in a project folder of its own, with a few agents from files; the
 * test itself acts as a worker over the worker API. It ends with the test, because its stdin is a pipe from here.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { home } from './build.js'
import { attack } from './strings.js'

export type Json = Readonly<Record<string, unknown>>

export interface RealServer {
  readonly url: string
  /** The one-time link that `up` prints. */
  readonly loginUrl: string
  readonly adminKey: string
  readonly databaseUrl: string
  /** The resident memory of the process. */
  residentBytes(): number
  /** What the notification webhook received. */
  readonly messages: readonly Json[]
  /** Files of the project folder. */
  write(path: string, text: string): void
  read(path: string): string
  remove(path: string): void
  /** An agent whose worker is the test. */
  play(agent: string): Promise<void>
  ask<T = Json>(method: string, path: string, body?: unknown): Promise<T>
  /** Starts a turn and returns its id. */
  run(agent: string, instruction: string, fields?: Json): Promise<string>
  /** Claims the next turn of the agents whose worker is the test. */
  claim(): Promise<Claimed>
  close(): Promise<void>
}

interface Claimed {
  readonly agent_turn_id: string
  readonly turn_epoch: number
  readonly lease_token: string
  readonly kind: string
}

/** The worker target that the test serves. */
const byHand = 'team'
export const project = 'default'

const agents: Readonly<Record<string, string>> = {
  greeter: `---\ncommand: [sh, -c, 'printf "You asked: "; tail -n 1']\n---\nSay it back.\n`,
  mallory: `---\ncommand: [cat, mallory.txt]\n---\nBe hostile.\n`,
  scribe: `---\noutput: json\ncommand: [sh, -c, 'cat > /dev/null; echo "# Notes" > notes.md; cat scribe.json']\n---\nWrite notes.md.\n`,
  approver: `---\nexecutor: person\npeople: [alice]\nchoices: [ship it, wait]\nanswer_within_seconds: 600\n---\nYou decide.\n`,
}
const result = {
  fields: [
    { name: 'summary', value: 'Wrote the notes.' },
    { name: 'files', value: ['notes.md'] },
  ],
  usage: { input_tokens: 900, output_tokens: 350, total_tokens: 1_250, cost_usd: 0.012 },
}

// Short, so that the test sees the watchdogs act. The rules are those of production.
const timings = {
  BELLWETHER__WORKER__SUSPEND_TIMEOUT_SECONDS: '1',
  BELLWETHER__WORKER__WATCHDOG_INTERVAL_SECONDS: '1',
  BELLWETHER__PMO__WATCHDOG_INTERVAL_SECONDS: '1',
  BELLWETHER__BOARD__AUTOPILOT_INTERVAL_SECONDS: '1',
}

/** `more`: further agents, by their names. */
export async function openServer(
  env: Readonly<Record<string, string>> = {},
  more: Readonly<Record<string, string>> = {},
): Promise<RealServer> {
  // Under /tmp, where the account that runs the database can reach it.
  const folder = mkdtempSync(join(tmpdir(), 'bellwether-dashboard-'))
  chmodSync(folder, 0o755)
  mkdirSync(join(folder, 'agents'))
  for (const [name, text] of Object.entries({ ...agents, ...more }))
    writeFileSync(join(folder, 'agents', `${name}.md`), text)
  mkdirSync(join(folder, 'config'))
  const checks = { 'notes-written': { command: ['test', '-s', 'notes.md'] } }
  writeFileSync(join(folder, 'config', 'acceptance-policy.json'), JSON.stringify({ checks }))
  writeFileSync(join(folder, 'mallory.txt'), attack)
  writeFileSync(join(folder, 'scribe.json'), JSON.stringify(result))
  const messages: Json[] = []
  const receiver = createServer((request, response) => {
    let body = ''
    request.on('data', (data: Buffer) => (body += data.toString()))
    request.on('end', () => {
      messages.push(JSON.parse(body) as Json)
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  const child = spawn(process.execPath, [...program(), 'up', '--port', '0', '--trust', '--json', '--parent-pipe'], {
    cwd: folder,
    env: { ...process.env, ...timings, BELLWETHER__NOTIFY__WEBHOOK_URL: hook, ...env },
    stdio: 'pipe',
  })
  const heard = { err: '' }
  child.stderr.on('data', (data: Buffer) => (heard.err = (heard.err + data.toString()).slice(-100_000)))
  const ended = new Promise<[number | null, NodeJS.Signals | null]>((resolve) =>
    child.once('exit', (...end) => resolve(end)),
  )
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const facts = await firstLine(child, heard).catch((error: unknown) => {
    remove()
    throw error
  })
  const url = String(facts['url'])
  const key = String(facts['adminKey'])

  async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { 'x-api-key': key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text) as T
  }

  return {
    url,
    loginUrl: String(facts['loginUrl']),
    adminKey: key,
    databaseUrl: String(facts['databaseUrl']),
    residentBytes: () => 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]),
    messages,
    write: (path, text) => writeFileSync(join(folder, path), text),
    read: (path) => readFileSync(join(folder, path), 'utf8'),
    remove: (path) => rmSync(join(folder, path)),
    play: async (agent) => void (await ask('PUT', `/projects/${project}/agents/${agent}`, { worker_target: byHand })),
    ask,
    run: async (agent, instruction, fields = {}) => {
      const path = `/projects/${project}/agents/${agent}/turns`
      return (await ask<{ agent_turn_id: string }>('POST', path, { instruction, ...fields })).agent_turn_id
    },
    async claim() {
      const { turns } = await ask<{ turns: Claimed[] }>('POST', `/workers/${byHand}/claim`, {
        max: 1,
        wait_seconds: 30,
        worker_id: 'worker-1',
      })
      if (turns[0] === undefined) throw new Error('No turn can be claimed')
      return turns[0]
    },
    async close() {
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), stopMs)
      const [code, signal] = await ended
      clearTimeout(timer)
      receiver.closeAllConnections()
      receiver.close()
      // A killed `up` leaves its database running for the next start; here there is none.
      if (signal === 'SIGKILL') endDatabase(folder)
      remove()
      if (code !== 0) throw new Error(`bellwether up ended with ${code ?? signal}:\n${heard.err.slice(-4_000)}`)
    },
  }
}

function endDatabase(folder: string): void {
  const [pid] = readFileSync(join(folder, '.bellwether/database/cluster/postmaster.pid'), 'utf8').split('\n')
  process.kill(Number(pid), 'SIGQUIT')
}

/** The program: the build of `npm test` if there is one, else the source. */
export function program(): readonly string[] {
  const cli = join(home, '../bellwether')
  if (process.env['BELLWETHER_TEST_BUILT'] === '1') return [join(cli, 'dist/cli/main.js')]
  // By path: packages cannot be resolved from the child's folder.
  const tsx = createRequire(join(dirname(home), 'bellwether/package.json')).resolve('tsx')
  return ['--import', pathToFileURL(tsx).href, '--conditions=@bellwether/source', join(cli, 'src/cli/main.ts')]
}

// An embedded database is made before the server answers, on a busy machine.
const readyMs = 240_000
// Longer than it takes to drain; nothing is running by then.
const stopMs = 120_000

export function firstLine(child: ChildProcess, heard: { readonly err: string }): Promise<Json> {
  return new Promise((resolve, reject) => {
    let out = ''
    const fail = (why: string) => {
      clearTimeout(timer)
      child.kill('SIGKILL')
      reject(new Error(`${why}:\n${heard.err.slice(-4_000)}`))
    }
    const timer = setTimeout(() => fail('bellwether up was not ready in time'), readyMs)
    child.stdout?.on('data', (data: Buffer) => {
      out += data.toString()
      if (!out.includes('\n')) return
      clearTimeout(timer)
      resolve(JSON.parse(out.slice(0, out.indexOf('\n'))) as Json)
    })
    child.once('exit', () => fail('bellwether up ended before it was ready'))
    // EPIPE after it exited; the exit code reports the reason.
    child.stdin?.on('error', () => undefined)
  })
}
