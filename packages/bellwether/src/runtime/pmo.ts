/** `bellwether pmo`: stores the limits that the kernel's verbs read, then runs the guard, the relay, joins, the hosted tools and retention. */
import { systemClock, systemRandom } from '@bellwether/base'
import type { Alerts } from '../board/dispatch/alerts.js'
import { setSpendingLimits } from '../kernel/verbs/budgets/spending.js'
import { setLimits } from '../kernel/verbs/roster.js'
import { readSpendingLimits, readTimeZone } from '../settings/spending.js'
import { openEventWebhook } from '../pmo/event-webhook.js'
import { openFailures } from '../pmo/failures.js'
import { runPmo } from '../pmo/loop.js'
import { noWorkerText } from '../kernel/reads/gauges.js'
import { openNotifier } from '../pmo/notifier.js'
import { openChannels, publicUrl } from '../ports/channels.js'
import { openQuietHours } from '../ports/quiet-hours.js'
import { postJson, webhookUrl } from '../ports/webhook.js'
import { openAlerts } from './parts/board/task-root.js'
import { kernelLimits, pmoSettings } from './parts/part-settings.js'
import { pmoHandlers } from './parts/pmo-tools.js'
import { storeAlerts } from './parts/store-alerts.js'
import { startProcessTelemetry } from './parts/telemetry.js'
import { type PartContext, type ProcessOptions, runProcess } from './process.js'

export function runPmoProcess(options: ProcessOptions): Promise<number> {
  return runProcess(options, 'pmo', (context) => runPmoPart(context, options))
}

export interface PmoPartOptions extends Pick<ProcessOptions, 'onReady'> {
  /** The alerts of the process. Default: the PMO's own. */
  readonly alerts?: Alerts
  /** The address of the server in this process, once it listens. Default: that of the settings. */
  readonly serverUrl?: () => string | undefined
}

/** The PMO on an open runtime; resolves after the signal aborts. */
export async function runPmoPart(context: PartContext, options: PmoPartOptions): Promise<number> {
  const { runtime, log } = context
  const { ended, alerts } = await startPmo(context, options)
  const telemetry = await startProcessTelemetry({ ...context, traces: true, alerts: () => alerts.counts })
  options.onReady?.({ ready: true, role: 'pmo', bell: runtime.bell.kind, pid: process.pid })
  log.info({ bell: runtime.bell.kind }, 'PMO is ready')
  await ended
  await telemetry.close()
  return 0
}

/** Stores the limits and starts the loops; `ended` resolves after the signal aborts and all alerts are sent. */
export async function startPmo(
  context: Omit<PartContext, 'env'>,
  options: Omit<PmoPartOptions, 'onReady'> = {},
): Promise<{ readonly ended: Promise<void>; readonly alerts: Alerts }> {
  const { runtime, settings, log, signal } = context
  const { kernel, bell } = runtime
  const alerts =
    options.alerts ?? openAlerts({ notify: settings.notify, log, signal, send: storeAlerts(kernel, settings.notify) })
  const { limits, on_exceeded: action, time_zone: zone } = settings.spending
  await setSpendingLimits(kernel.db, readSpendingLimits(limits), { action, timeZone: readTimeZone(zone) })
  await setLimits(kernel.db, kernelLimits(settings))
  const ports = { random: systemRandom, clock: systemClock, db: kernel.db, log, signal }
  const { event_webhook_url: url } = settings.pmo
  const eventWebhook =
    url === undefined
      ? undefined
      : await openEventWebhook({ url: webhookUrl(url, 'pmo', 'event_webhook_url'), post: postJson, ...ports })
  const channels = openChannels(settings.notify)
  const { host, port } = settings.server
  const address = publicUrl(settings.server.public_url)
  const fromSettings = () => `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  const notifier =
    channels.length === 0
      ? undefined
      : openNotifier({
          ...ports,
          channels,
          quiet: openQuietHours(settings.notify),
          dashboard: address === undefined ? (options.serverUrl ?? fromSettings) : () => address,
          onUnsent: () => alerts.countUnsent(),
        })
  const names = channels.map(({ name }) => name)
  const failures =
    channels.length === 0 || !settings.notify.failures
      ? undefined
      : await openFailures({ db: kernel.db, channels: names, log })
  const pmo = runPmo({
    failures,
    kernel,
    notifier,
    bell,
    stream: runtime.stream(),
    eventWebhook,
    clock: systemClock,
    log,
    signal,
    settings: pmoSettings(settings),
    handlers: pmoHandlers(kernel),
    onNoWorker: ({ worker_target: target, turns, waiting_seconds: seconds }) =>
      alerts.raise({
        kind: 'no_worker',
        text: noWorkerText(target, turns),
        details: { target, turns, waitingSeconds: Math.round(seconds) },
      }),
  })
  return { ended: pmo.then(() => alerts.settled()), alerts }
}
