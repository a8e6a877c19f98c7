/**
 * How a command reaches a running server: by what it is told (--server, --key), by the environment, or by the file that `up` leaves
 * in the folder while it runs. Always: a call has a timeout; a refusal is told in the server's own words.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import type { Command } from 'commander'
import { systemClock } from '../ports/clock.js'
import { within } from '../ports/link.js'
import { environment } from '../serve.js'
import { adminKeyFile, dataFolder, upFile } from '../serve/places.js'

export interface ServerFlags {
  readonly server?: string
  readonly key?: string
  readonly project: string
  readonly json?: boolean
}

export interface Client {
  readonly project: string
  /** Answers the parsed body; `path` is relative to the API's base. */
  ask<T>(method: string, path: string, body?: object): Promise<T>
  /** An answer that goes on: the events of a stream, one object each, until the signal fires or the server ends it. */
  follow(path: string, signal: AbortSignal): AsyncGenerator<Readonly<Record<string, unknown>>>
}

const callMs = 75_000 // longer than the longest wait that the server grants
const base = '/api/v1'

/** The options that every command has which talks to a server. */
export function toServer(command: Command): Command {
  return command
    .option('--server <url>', 'the server (default: $BELLWETHER_SERVER, else the `up` of this folder)')
    .option('--key <key>', 'an API key (default: $BELLWETHER_KEY, else the one that `up` has left here)')
    .option('--project <name>', 'the project', 'default')
    .option('--json', 'print one object a line')
}

export function openClient(flags: ServerFlags): Client {
  const { url, key } = reach(flags)
  const headers = { 'x-api-key': key }

  async function send(method: string, path: string, body: object | undefined, signal: AbortSignal): Promise<Response> {
    let response: Response
    try {
      response = await fetch(`${url}${base}${path}`, {
        method,
        headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal,
      })
    } catch (error) {
      throw new Retryable(`${url} does not answer`, {
        code: 'server_away',
        cause: error,
        hint: 'is it running? bellwether up starts one here',
      })
    }
    if (!response.ok) throw await refusal(response)
    return response
  }

  return {
    project: flags.project,
    async ask<T>(method: string, path: string, body?: object) {
      const over = new AbortController()
      const answer = send(method, path, body, over.signal).then((response) => response.json())
      try {
        return (await within(systemClock, callMs, `${method} ${path}`, answer)) as T
      } finally {
        over.abort()
      }
    },
    async *follow(path, signal) {
      const response = await send('GET', path, undefined, signal)
      yield* events(response)
    },
  }
}

async function refusal(response: Response): Promise<Terminal> {
  const problem = problemIn(await response.text())
  return new Terminal(problem['detail'] ?? problem['title'] ?? `the server answered ${response.status}`, {
    code: problem['code'] ?? `http_${response.status}`,
    ...(problem['hint'] === undefined ? {} : { hint: problem['hint'] }),
  })
}

/** What the server says is wrong; nothing where a proxy in between speaks its own language: the status has to do then. */
function problemIn(text: string): Readonly<Record<string, string>> {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed !== 'object' || parsed === null) return {}
    return Object.fromEntries(
      Object.entries(parsed).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
    )
  } catch (error) {
    if (error instanceof SyntaxError) return {}
    throw error
  }
}

async function* events(response: Response): AsyncGenerator<Readonly<Record<string, unknown>>> {
  let left = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    left += decoder.decode(chunk as Uint8Array, { stream: true })
    const blocks = left.split('\n\n')
    left = blocks.pop() ?? ''
    for (const block of blocks) {
      const data = block
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trimStart())
        .join('\n')
      if (data !== '') yield JSON.parse(data) as Readonly<Record<string, unknown>>
    }
  }
}

function reach(flags: ServerFlags): { url: string; key: string } {
  const env = environment()
  const here = flags.server === undefined ? besideUp(process.cwd()) : undefined
  const url = flags.server ?? env['BELLWETHER_SERVER'] ?? here?.url
  if (url === undefined) {
    throw new InvalidInput('no server is known here', {
      code: 'no_server',
      hint: 'start one in this folder (bellwether up), or give --server URL and --key KEY',
    })
  }
  const key = flags.key ?? env['BELLWETHER_KEY'] ?? here?.key
  if (key === undefined) {
    throw new InvalidInput('a key is needed', {
      code: 'no_key',
      hint: 'give --key KEY, or set BELLWETHER_KEY; bellwether keys create makes one',
    })
  }
  return { url: url.replace(/\/+$/, ''), key }
}

/** What an `up` of this folder, or of one above it, has left. */
function besideUp(from: string): { url: string; key: string | undefined } | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const data = join(folder, dataFolder)
    const file = join(data, upFile)
    if (existsSync(file)) {
      const { url } = JSON.parse(readFileSync(file, 'utf8')) as { url: string }
      const keyFile = join(data, adminKeyFile)
      return { url, key: existsSync(keyFile) ? readFileSync(keyFile, 'utf8').trim() : undefined }
    }
    if (folder === dirname(folder)) return undefined
  }
}
