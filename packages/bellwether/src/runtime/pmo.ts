/** `bellwether pmo`: stores the limits that the kernel's verbs read, then runs the guard, the relay, joins, the hosted tools and retention. */
import { systemClock, systemRandom } from '@bellwether/base'
import type { Alerts } from '../board/dispatch/alerts.js'
import { setLimits } from '../kernel/verbs/roster.js'
import { openEventWebhook } from '../pmo/event-webhook.js'
import { runPmo } from '../pmo/loop.js'
import { noWorkerText } from '../kernel/reads/gauges.js'
import { postJson, webhookUrl } from '../ports/webhook.js'
import { openAlerts } from './parts/task-root.js'
import { kernelLimits, pmoSettings } from './parts/part-settings.js'
import { pmoHandlers } from './parts/pmo-tools.js'
import { startProcessTelemetry } from './parts/telemetry.js'
import { type PartContext, type ProcessOptions, runProcess } from './process.js'

export function runPmoProcess(options: ProcessOptions): Promise<number> {
  return runProcess(options, 'pmo', (context) => runPmoPart(context, options))
}

export interface PmoPartOptions extends Pick<ProcessOptions, 'onReady'> {
  /** The alerts of the process. Default: the PMO's own. */
  readonly alerts?: Alerts
}

/** The PMO on an open runtime; resolves after the signal aborts. */
export async function runPmoPart(context: PartContext, options: PmoPartOptions): Promise<number> {
  const { runtime, log } = context
  const { ended, alerts } = await startPmo(context, options.alerts)
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
  alerts: Alerts = openAlerts({ settings: context.settings.board, log: context.log, signal: context.signal }),
): Promise<{ readonly ended: Promise<void>; readonly alerts: Alerts }> {
  const { runtime, settings, log, signal } = context
  const { kernel, bell } = runtime
  await setLimits(kernel.db, kernelLimits(settings))
  const { event_webhook_url: url } = settings.pmo
  const eventWebhook =
    url === undefined
      ? undefined
      : await openEventWebhook({
          url: webhookUrl(url, 'pmo', 'event_webhook_url'),
          post: postJson,
          random: systemRandom,
          clock: systemClock,
          db: kernel.db,
          log,
          signal,
        })
  const pmo = runPmo({
    kernel,
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
