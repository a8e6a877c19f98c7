/**
 * A view server over real HTTP with a manual clock, and a scripted client of the pipe protocol. `close` closes everything.
 */
import { Agent } from 'node:http'
import { type Clock, defined, systemClock, systemRandom } from '@bellwether/base'
import type { FileEventType, FileRow, MessageSource, SourceType } from '@bellwether/protocol'
import { viewKeys } from '../../src/http/auth.js'
import { makeApp, type ServerLimits } from '../../src/http/app.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { openReceiver } from '../../src/runtime/parts/listen.js'
import { openFusion, type Fusion } from '../../src/view/fusion.js'
import type { ViewSettings } from '../../src/view/view.js'
import { afterEach, beforeEach } from 'vitest'
import { handClock, type HandClock } from '../support/hand-clock.js'
import { sendRequest, type TestResponse } from '../support/servers/http.js'
import { recordedLog, type LogLine } from '../support/recorded-log.js'

export type Answer = TestResponse<Body>

/** The response fields that tests read. */
export interface Body {
  readonly [field: string]: unknown
  readonly children?: readonly Body[]
  readonly results?: readonly Body[]
  readonly commands?: readonly Body[]
  readonly components?: readonly Body[]
  readonly sessions?: readonly Body[]
  readonly suspects?: readonly Body[]
  readonly changes?: readonly Body[]
  readonly differences?: readonly Body[]
  readonly paths?: readonly string[]
  readonly members?: Readonly<Record<string, Body | null>>
  readonly sources?: Readonly<Record<string, Body>>
  readonly summary?: Body
  readonly health?: Body
  readonly best?: Body
  readonly session_id?: string
  readonly job_id?: string
  readonly token?: string
  readonly path?: string
  readonly kind?: string
  readonly name?: string
}

export const settings: ViewSettings = {
  sessionTimeoutSeconds: 30,
  auditIntervalSeconds: 1_000,
  sentinelIntervalSeconds: 300,
  hotFileThresholdSeconds: 60,
  tombstoneTtlSeconds: 3_600,
  live: true,
}

export const keyOf = (view: string) => `key-of-${view}`

export interface ViewServer {
  readonly url: string
  readonly fusion: Fusion
  readonly app: ReturnType<typeof makeApp>
  readonly clock: HandClock
  readonly lines: LogLine[]
  /** Advances the clock in steps short enough to count as continuous sweeps. */
  pass(seconds: number): Promise<void>
  get(path: string, view?: string): Promise<Answer>
  call(method: string, path: string, body?: unknown, options?: CallOptions): Promise<Answer>
  connect(taskId: string, options?: ConnectOptions): Promise<Sensor>
  close(): Promise<void>
}

interface CallOptions {
  readonly view?: string
  readonly key?: string | null
  readonly headers?: Record<string, string>
}

interface ConnectOptions {
  readonly view?: string
  readonly source?: string
  readonly timeoutSeconds?: number
}

export async function openViewServer(
  views: Readonly<Record<string, Partial<ViewSettings>>> = { v: {} },
  limits: Partial<ServerLimits> = {},
): Promise<ViewServer> {
  const clock = handClock()
  const { log, lines } = recordedLog()
  const fusion = openFusion({
    views: Object.fromEntries(Object.entries(views).map(([name, own]) => [name, { ...settings, ...own }])),
    clock,
    ids: uuidv7(systemClock, systemRandom),
    random: systemRandom,
    log,
  })
  const stop = new AbortController()
  const keys = viewKeys(Object.keys(views).map((view) => [view, keyOf(view)] as const))
  const app = makeApp({ fusion, keys, log, signal: stop.signal, limits })
  const onChange = (error: string | undefined) => fusion.receiver(error)
  const receiver = openReceiver({ clock, log, signal: stop.signal, onChange })
  const url = await receiver.listen(app, '127.0.0.1', 0)
  const agent = new Agent({ keepAlive: true })
  const first = Object.keys(views)[0]!
  const call: ViewServer['call'] = (method, path, body, { view = first, key = keyOf(view), headers = {} } = {}) =>
    sendRequest(`${/^\/(api|healthz|readyz)/.test(path) ? url : `${url}/api/v1`}${path}`, method, body, agent, {
      ...(key === null ? {} : { 'x-api-key': key }),
      ...headers,
    })
  fusion.step()
  return {
    url,
    fusion,
    app,
    clock,
    lines,
    async pass(seconds) {
      for (let left = seconds * 1_000; left > 0; left -= 1_000) {
        await clock.advance(Math.min(1_000, left))
        fusion.step()
      }
    },
    get: (path, view) => call('GET', path, undefined, defined({ view })),
    call,
    async connect(taskId, { view = first, source, timeoutSeconds } = {}) {
      const answer = await call(
        'POST',
        '/pipe/session/',
        {
          task_id: taskId,
          client_info: { agent_id: taskId, source_uri: `/mnt/${taskId}`, ...defined({ source_id: source }) },
          ...defined({ session_timeout_seconds: timeoutSeconds }),
        },
        { view },
      )
      if (answer.status !== 200) throw new Error(`Cannot create a session: ${answer.status} ${answer.text}`)
      return new Sensor(answer, (method, path, body) => call(method, path, body, { view }), clock)
    },
    async close() {
      stop.abort()
      fusion.close()
      agent.destroy()
      await app.close()
    },
  }
}

/** A scripted sensor. */
export class Sensor {
  readonly id: string
  readonly role: string
  #seq = 0

  constructor(
    readonly answer: Answer,
    private readonly call: (method: string, path: string, body?: unknown) => Promise<Answer>,
    private readonly clock: Clock,
  ) {
    this.id = answer.body.session_id ?? ''
    this.role = answer.body['role'] as string
  }

  heartbeat(body: Record<string, unknown> = {}): Promise<Answer> {
    return this.call('POST', `/pipe/session/${this.id}/heartbeat`, { can_realtime: true, ...body })
  }

  async commands(): Promise<readonly Body[]> {
    return (await this.heartbeat()).body.commands ?? []
  }

  end(): Promise<Answer> {
    return this.call('DELETE', `/pipe/session/${this.id}`)
  }

  ingest(body: unknown): Promise<Answer> {
    return this.call('POST', `/pipe/ingest/${this.id}/events`, body)
  }

  send(
    from: MessageSource,
    rows: readonly (FileRow | Record<string, unknown>)[],
    options: {
      readonly type?: FileEventType
      readonly sourceType?: SourceType
      readonly isEnd?: boolean
      readonly metadata?: Record<string, unknown>
      readonly index?: number
    } = {},
  ): Promise<Answer> {
    const { type = 'update', isEnd = false, metadata = {}, index = this.clock.wallMs() } = options
    const sourceType = options.sourceType ?? (from === 'realtime' ? 'message' : from)
    const event = {
      event_type: type,
      event_schema: 'fs',
      table: 'files',
      fields: [],
      rows,
      index,
      message_source: from,
    }
    return this.ingest({ events: rows.length === 0 ? [] : [event], source_type: sourceType, is_end: isEnd, metadata })
  }

  realtime(...rows: readonly FileRow[]): Promise<Answer> {
    this.#seq += 1
    return this.send('realtime', rows, { metadata: { seq: this.#seq } })
  }

  deleted(...paths: readonly string[]): Promise<Answer> {
    this.#seq += 1
    return this.send(
      'realtime',
      paths.map((path) => ({ path })),
      { type: 'delete', metadata: { seq: this.#seq } },
    )
  }

  /** A complete snapshot with its end. */
  snapshot(...rows: readonly FileRow[]): Promise<Answer> {
    return this.send('snapshot', rows, { isEnd: true })
  }

  startAudit(auditId: string): Promise<Answer> {
    return this.call('POST', '/pipe/consistency/audit/start', { session_id: this.id, audit_id: auditId })
  }

  audit(auditId: string, ...rows: readonly FileRow[]): Promise<Answer> {
    return this.send('audit', rows, { metadata: { audit_id: auditId } })
  }

  endAudit(auditId: string, complete = true): Promise<Answer> {
    return this.send('audit', [], { isEnd: true, metadata: { audit_id: auditId, complete } })
  }

  /** A complete audit that sees these rows in these directories, from start to end. */
  async completeAudit(auditId: string, directories: readonly string[], ...rows: readonly FileRow[]): Promise<void> {
    await this.startAudit(auditId)
    await this.audit(
      auditId,
      ...directories.map((path) => directory(path)),
      ...rows,
      ...directories.map((path) => scanned(path)),
    )
    await this.endAudit(auditId)
  }

  get request(): (method: string, path: string, body?: unknown) => Promise<Answer> {
    return this.call
  }
}

/** Long ago, so that no file is hot. */
/** Per test: a view server with directory /d and a connected leader, and reads of the view. */
export function viewPerTest() {
  let server: ViewServer
  let leader: Sensor
  beforeEach(async () => {
    server = await openViewServer()
    leader = await server.connect('leader', { timeoutSeconds: 100_000 })
    await leader.snapshot(directory('/d'))
  })
  afterEach(() => server.close())
  const node = async (path: string): Promise<Body | undefined> => {
    const response = await server.get(`/views/v/tree?path=${encodeURIComponent(path)}`)
    return response.status === 404 ? undefined : response.body
  }
  return {
    get server() {
      return server
    },
    get leader() {
      return leader
    },
    node,
    nowSeconds: () => server.clock.wallMs() / 1_000,
    isThere: async (path: string) => (await node(path)) !== undefined,
    blindSpots: async () => (await server.get('/views/v/blind-spots')).body,
    stats: async () => (await server.get('/views/v/stats')).body,
  }
}

export const old = 1_600_000_000

export const file = (path: string, modifiedTime = old, more: Partial<FileRow> = {}): FileRow => ({
  path,
  file_name: path.slice(path.lastIndexOf('/') + 1),
  size: 10,
  modified_time: modifiedTime,
  is_directory: false,
  ...more,
})

export const directory = (path: string, modifiedTime = old, more: Partial<FileRow> = {}): FileRow => ({
  path,
  file_name: path.slice(path.lastIndexOf('/') + 1),
  size: 0,
  modified_time: modifiedTime,
  is_directory: true,
  ...more,
})

export const scanned = (path: string): FileRow => directory(path, old, { scan_complete: true })
