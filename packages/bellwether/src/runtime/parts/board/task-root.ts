/**
 * Opens a task root: the board with its disk, alerts and policy files. A root that cannot be opened fails before anything is written.
 * `task list` loads only this file, so it imports neither the kernel nor the dispatcher.
 */
import { InvalidInput } from '@bellwether/protocol'
import { defined, type Log, systemClock, systemRandom } from '@bellwether/base'
import { makeAlerts, type AlertOptions, type Alerts } from '../../../board/dispatch/alerts.js'
import type { CachePorts } from '../../../board/dispatch/caches.js'
import { countingContention, type Contention } from '../../../board/dispatch/contention.js'
import { openBoard } from '../../../board/log/board.js'
import type { Board } from '../../../board/log/task.js'
import { loadPolicies, openPolicies, type BoardPolicies } from '../../../board/policies/load.js'
import { boundedDisk } from '../../../ports/disk/bounded-disk.js'
import { systemDisk, type Disk } from '../../../ports/disk/disk.js'
import { uuidv7, type Ids } from '../../../ports/ids.js'
import { defaultCallPolicy, retryCall, type CallPolicy } from '../../../ports/retry.js'
import { openChannels, type ChannelSettings } from '../../../ports/channels.js'
import type { Settings } from '../../../settings/schema.js'

export interface OpenRoot {
  readonly board: Board
  /** Every call ends within the timeout of local state. */
  readonly disk: Disk
  readonly alerts: Alerts
  readonly contention: Contention
  readonly ids: Ids
  readonly log: Log
  readonly settings: Settings['board']
  readonly caches: CachePorts
  readonly policies: () => Promise<BoardPolicies>
  /** The timeouts and retries when the root was opened. */
  readonly calls: CallPolicy
}

export interface RootOptions {
  readonly root: string
  /** The owner that locks name. */
  readonly owner: string
  readonly settings: Settings['board']
  /** The channels of alerts. Default: none. */
  readonly notify?: Settings['notify']
  readonly log: Log
  readonly signal?: AbortSignal
  /** Stores alerts, which the PMO sends. Default: this process sends them to the channels. */
  readonly storeAlert?: AlertOptions['send']
  /** Needs no write permission; the board cannot write. */
  readonly readOnly?: boolean
  /** The folder whose config/ has the policies. Default: the task root. */
  readonly policyRoot?: string | undefined
}

export async function openTaskRoot(options: RootOptions): Promise<OpenRoot> {
  const { root, owner, settings, log, signal, readOnly, policyRoot = root } = options
  const ids = uuidv7(systemClock, systemRandom)
  const calls = await readCallPolicy(policyRoot, log)
  const { notify, storeAlert: send } = options
  const alerts = openAlerts({ root, notify, log, calls, signal, send })
  const lockWaitMs = calls.timeoutMs.local_state
  const disk = boundedDisk(systemDisk, { clock: systemClock, timeoutMs: calls.timeoutMs.local_state })
  const access = readOnly === true ? 'read' : 'write'
  const opened = await openBoard({ root, owner, access, disk, clock: systemClock, ids, log, lockWaitMs })
  const { board, contention } = countingContention(opened, {
    clock: systemClock,
    random: systemRandom,
    alerts,
    retry: calls.retry,
  })
  try {
    if (readOnly !== true) {
      const { importReference } = await import('../../../board/repair/import-reference.js')
      await importReference(board, { disk, clock: systemClock, ids, log })
    }
  } catch (error) {
    await board.close()
    throw error
  }
  const ports = { clock: systemClock, random: systemRandom, log, ...defined({ signal }) }
  const read = { kind: 'local_state', name: 'reading the policies' } as const
  const load = openPolicies(policyRoot, systemClock)
  const policies = () => retryCall(calls, read, load, ports)
  return { board, disk, alerts, contention, ids, log, settings, policies, calls, caches: { disk, ids, log } }
}

/** The alerts of this process. `send` absent: it sends them itself. */
export function openAlerts({
  root,
  notify = {},
  log,
  calls = defaultCallPolicy,
  signal,
  send = direct(notify),
}: Pick<RootOptions, 'log'> & {
  readonly root?: string
  readonly notify: ChannelSettings | undefined
  readonly calls?: CallPolicy
  readonly signal: AbortSignal | undefined
  readonly send: AlertOptions['send']
}): Alerts {
  return makeAlerts({ clock: systemClock, random: systemRandom, calls, log, ...defined({ root, signal, send }) })
}

/** Without a database: sends each alert to every channel. */
function direct(notify: ChannelSettings): AlertOptions['send'] {
  const channels = openChannels(notify)
  if (channels.length === 0) return undefined
  return async ({ key, ...message }, signal) => {
    const body = { ...message, id: key ?? `${message.kind} ${message.at}` }
    await Promise.all(channels.map((channel) => channel.send(body, signal)))
  }
}

/** An invalid policy file stops dispatches, but not commands that only read the board. */
async function readCallPolicy(root: string, log: Log): Promise<CallPolicy> {
  try {
    const read = { kind: 'local_state', name: 'reading the policies' } as const
    const ports = { clock: systemClock, random: systemRandom, log }
    return (await retryCall(defaultCallPolicy, read, () => loadPolicies(root), ports)).calls
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    log.warn({ err: error }, 'invalid policies; using the default timeouts and retries')
    return defaultCallPolicy
  }
}
