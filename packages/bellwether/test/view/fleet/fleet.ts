/**
 * One `bellwether view` and any number of `bellwether sensor` processes on one real directory, with a client for them. Every
 * wait polls HTTP with a time limit; `end` leaves no process and no file.
 */
import { defined } from '@bellwether/base'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runCli, type Cli } from '../../support/process.js'
import { until } from '../../support/until.js'
import { differences, inView, onDisk, type Difference, type Node } from './disk.js'
import { fleetProgram, fleetScript } from './program.js'

export interface FleetOptions {
  readonly session?: number
  readonly audit?: number
  readonly sentinel?: number
  readonly hot?: number
  readonly tombstones?: number
  readonly views?: readonly string[]
  readonly args?: readonly string[]
  /** Runs a server that can check its own state; see checked-view.ts. */
  readonly checked?: boolean
}

export interface SensorOptions {
  readonly args?: readonly string[]
  readonly root?: string
  readonly views?: readonly string[]
  /** Seconds that its clock is ahead. */
  readonly skew?: number
  readonly uid?: number
}

export interface SessionInfo {
  readonly session_id: string
  readonly agent_id: string
  readonly source_id: string
  readonly role: 'leader' | 'follower'
  readonly can_realtime: boolean
  readonly agent_status: null | {
    readonly active: readonly string[]
    readonly tasks: readonly { readonly name: string; readonly restarts: number }[]
    readonly units: readonly { readonly kind: string; readonly state: string; readonly error?: string }[]
    readonly source: { readonly overflows: number; readonly watches: number; readonly denied: number }
  }
}

export interface Stats {
  readonly item_count: number
  readonly suspect_file_count: number
  readonly tombstone_count: number
  readonly has_blind_spot: boolean
  readonly logical_now: number
  readonly audit_cycle_count: number
  readonly last_audit_start: number | null
  readonly last_audit_finished_at: number | null
  readonly is_auditing: boolean
  readonly sources: Readonly<Record<string, { readonly total_files: number }>>
}

export interface BlindSpots {
  readonly additions: readonly string[]
  readonly deletions: readonly string[]
}

export interface Answer<T> {
  readonly status: number
  readonly body: T
}

const responseMaxMs = 120_000
const checkedView = fileURLToPath(new URL('checked-view.ts', import.meta.url))
const skewed = fileURLToPath(new URL('skewed-sensor.ts', import.meta.url))

export class Fleet {
  readonly folder: string
  readonly root: string
  readonly sensors = new Map<string, Cli>()
  server!: Cli
  url = ''
  /** Where a checked server reports on itself. */
  #checks = ''
  readonly #options: FleetOptions
  readonly #all: Cli[] = []

  constructor(options: FleetOptions = {}) {
    this.#options = options
    this.folder = mkdtempSync(join(tmpdir(), 'bw-fleet-'))
    chmodSync(this.folder, 0o755) // a sensor may run as another user
    this.root = join(this.folder, 'root')
    mkdirSync(this.root)
  }

  at(...names: string[]): string {
    return join(this.root, ...names)
  }

  /** A restarted server listens on the same port. */
  async serve(): Promise<void> {
    const { session = 3, audit = 1, sentinel = 1, hot = 2, tombstones = 3_600, views = ['v'] } = this.#options
    const port = this.url === '' ? '0' : new URL(this.url).port
    const each = views.flatMap((view) => ['--view', view, '--key', `${view}=${keyOf(view)}`])
    const args = this.#options.checked
      ? [views[0]!, keyOf(views[0]!), port]
      : ['view', '--json', '--parent-pipe', '--port', port, ...each, ...(this.#options.args ?? [])]
    this.server = this.#keep(
      runCli(args, {
        cwd: this.folder,
        program: this.#options.checked ? fleetScript(checkedView) : fleetProgram,
        env: {
          BELLWETHER__VIEW__SESSION_TIMEOUT_SECONDS: String(session),
          BELLWETHER__VIEW__AUDIT_INTERVAL_SECONDS: String(audit),
          BELLWETHER__VIEW__SENTINEL_INTERVAL_SECONDS: String(sentinel),
          BELLWETHER__VIEW__HOT_FILE_THRESHOLD_SECONDS: String(hot),
          BELLWETHER__VIEW__TOMBSTONE_TTL_SECONDS: String(tombstones),
        },
      }),
    )
    const ready = await this.server.ready()
    this.url = String(ready['url'])
    this.#checks = String(ready['checks'])
  }

  sensor(id: string, { args = [], root = this.root, views, skew, uid }: SensorOptions = {}): Cli {
    const keys = (views ?? [this.#options.views?.[0] ?? 'v']).map(keyOf)
    const how = { cwd: this.folder, ...defined({ uid }) }
    const options = ['--root', root, '--server', this.url, '--id', id, ...keys.flatMap((key) => ['--key', key])]
    const cli =
      skew === undefined
        ? runCli(['sensor', '--json', '--parent-pipe', ...options, ...args], { ...how, program: fleetProgram })
        : runCli([root, this.url, keys[0]!, id, String(skew)], { ...how, program: fleetScript(skewed) })
    this.sensors.set(id, cli)
    return this.#keep(cli)
  }

  async ask<T>(path: string, { method = 'GET', view = 'v' } = {}): Promise<Answer<T>> {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { 'x-api-key': keyOf(view) },
      signal: AbortSignal.timeout(responseMaxMs),
    })
    return { status: answer.status, body: (await answer.json()) as T }
  }

  /** Polls until the response is successful. */
  async good<T>(path: string, view = 'v'): Promise<T | undefined> {
    const answer = await this.ask<T>(path, { view }).catch(() => undefined) // an unavailable server is asked again
    return answer?.status === 200 ? answer.body : undefined
  }

  /** The answer of a checked server about itself. */
  async check<T>(question: 'check' | 'audit' | 'quiet'): Promise<T> {
    const answer = await fetch(`${this.#checks}/${question}`, { signal: AbortSignal.timeout(responseMaxMs) })
    return (await answer.json()) as T
  }

  stats = () => this.good<Stats>('/views/v/stats')
  blindSpots = () => this.good<BlindSpots>('/views/v/blind-spots')

  /** Waits until everything that the sensors have seen is applied. */
  async synced(): Promise<true | undefined> {
    return (await this.good<{ synced: boolean }>('/views/v/sync?wait=20'))?.synced === true ? true : undefined
  }

  async sessions(): Promise<readonly SessionInfo[]> {
    return (await this.good<{ sessions: SessionInfo[] }>('/views/v/sessions'))?.sessions ?? []
  }

  leader(): Promise<string | undefined> {
    return this.sessions().then((all) => all.find(({ role }) => role === 'leader')?.agent_id)
  }

  /** Waits until these sensors are connected and realtime, and one of them leads. */
  async connected(...ids: readonly string[]): Promise<void> {
    await until(
      `${ids.join(', ')} are connected`,
      async () => {
        const all = await this.sessions()
        const ready = ids.every((id) => all.some((session) => session.agent_id === id && session.can_realtime))
        return (ready && (await this.stats()) !== undefined) || undefined
      },
      60_000, // three processes from source on a busy machine
    )
  }

  async leads(...ids: readonly string[]): Promise<string> {
    return until(`${ids.join(' or ')} leads`, async () => {
      const leader = await this.leader()
      return leader !== undefined && ids.includes(leader) ? leader : undefined
    })
  }

  async node(path: string): Promise<Node | undefined> {
    return this.good<Node>(`/views/v/tree?recursive=false&path=${encodeURIComponent(path)}`)
  }

  async differences(query = ''): Promise<Difference[] | undefined> {
    const top = await this.good<Node>(`/views/v/tree?path=/${query}`)
    return top === undefined ? undefined : differences(onDisk(this.root), inView(top))
  }

  /** Waits until view and disk are equal; reports the differences at the time limit. */
  async equal(withinMs = 20_000): Promise<void> {
    let last: readonly Difference[] | undefined
    const same = async () => {
      last = await this.differences()
      return last?.length === 0 || undefined
    }
    await until('the view equals the disk', same, withinMs).catch((error: unknown) => {
      throw new Error(`${String(error)}: ${JSON.stringify(last?.slice(0, 10))}\n${this.server.stderr().slice(-2_000)}`)
    })
  }

  /** Waits until another `count` audits have begun and ended. */
  async audited(count = 1): Promise<void> {
    const { audit_cycle_count: before } = await until('stats', this.stats)
    await until(`${count} more audits`, async () => {
      const now = await this.stats()
      // An audit that was already running does not count.
      return (now !== undefined && now.audit_cycle_count > before + count) || undefined
    })
  }

  /** `unmount` runs when no process is left and the files still exist. */
  async end(unmount = () => {}): Promise<void> {
    for (const cli of this.#all) if (cli.alive()) cli.signal('SIGKILL')
    await Promise.all(this.#all.map((cli) => cli.ended))
    unmount()
    rmSync(this.folder, { recursive: true, force: true })
  }

  #keep(cli: Cli): Cli {
    this.#all.push(cli)
    return cli
  }
}

const keyOf = (view: string) => `key-of-view-${view}`

/** How often a process logged a message. */
export const countLogged = (cli: Cli, message: string): number => cli.stderr().split(`"msg":"${message}"`).length - 1
