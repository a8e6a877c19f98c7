/**
 * The demo: a database, a PMO and two workers on this machine, the play on top, the audit at the end. Always: everything
 * started here is stopped here, whatever happens in between; the exit code is 1 when the audit finds a turn stuck or lost.
 */
import { truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openKernel, type Kernel } from '../kernel/kernel.js'
import { migrate } from '../kernel/schema/migrate.js'
import type { Bell } from '../ports/bell/bell.js'
import { notifyBell } from '../ports/bell/notify.js'
import { systemClock } from '../ports/clock.js'
import { openDatabase } from '../ports/database/pool.js'
import { uuidv7 } from '../ports/ids.js'
import type { Log } from '../ports/log.js'
import { systemRandom } from '../ports/random.js'
import { holdLifeline } from '../serve/lifeline.js'
import { openLog } from '../serve/logger.js'
import { auditTurns } from './audit.js'
import { everyone, timings, tools } from './cast.js'
import { startMember, type MemberOptions, type Member } from '../serve/member.js'
import { besideOf, openPlace } from './place.js'
import { finalTable, interventionsSince, liveTable } from './report.js'
import { openScreen, type Screen } from './screen.js'
import { play } from './script.js'
import { hostTools } from './tool-host.js'

export interface DemoOptions {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** What node runs to be this program again. */
  readonly program: readonly string[]
}

const workers = 2
const interrupted = 130
const agentsFile = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? './agents.ts' : './agents.js', import.meta.url),
)
const lookEveryMs = 100

export async function runDemo(options: DemoOptions): Promise<number> {
  const startedMs = systemClock.monotonicMs()
  const elapsedMs = () => systemClock.monotonicMs() - startedMs
  const screen = openScreen(process.stdout, elapsedMs)
  const folder = await besideOf(options.dataDir)
  const logFile = join(folder, 'demo.log')
  const log = openLog('demo', logFile)
  const lifeline = holdLifeline({ parentPipe: false, log })
  lifeline.signal.addEventListener('abort', () => screen.say('interrupted: stopping everything'), { once: true })
  const undo: (() => Promise<unknown>)[] = []
  try {
    const { database, dataDir } = await openPlace(options.dataDir, log, (sentence) => screen.say(sentence))
    undo.push(() => database.stop())
    await truncate(logFile) // the folder is ours only now; each line is appended, so the log goes on from here
    screen.say(
      `PostgreSQL ${database.adopted ? 'of an earlier run taken over' : 'started'} (pid ${database.pid}, ${dataDir})`,
    )
    const env = { ...withoutSettings(options.env), ...timings, BELLWETHER__DATABASE__URL: database.url }
    const fleet: MemberOptions = { program: options.program, env, folder, logFile }
    const { kernel, bell, close } = await openOwn(database.url, log)
    undo.push(close)
    const code = await perform({ kernel, bell, fleet, log, screen, elapsedMs, signal: lifeline.signal, undo })
    return lifeline.signal.aborted ? interrupted : code
  } finally {
    screen.clear()
    for (const step of undo.toReversed()) {
      await step().catch((error: unknown) => log.error({ err: error }, 'something could not be stopped'))
    }
    if (undo.length > 0) screen.say('everything is stopped')
    lifeline.release()
  }
}

interface Performance {
  readonly kernel: Kernel
  readonly bell: Bell
  readonly fleet: MemberOptions
  readonly log: Log
  readonly screen: Screen
  readonly elapsedMs: () => number
  readonly signal: AbortSignal
  readonly undo: (() => Promise<unknown>)[]
}

async function perform({ kernel, bell, fleet, log, screen, elapsedMs, signal, undo }: Performance): Promise<number> {
  const projectId = `demo-${kernel.ids.next().slice(-12)}`
  // A target of its own: turns that a killed demo left behind are ended by the watchdog, not played again.
  const target = projectId
  await kernel.putAgents(everyone.map((agentId) => ({ projectId, agentId, workerTarget: target })))

  const members = new Set<Member>()
  undo.push(() => Promise.all([...members].map((member) => member.stop(signal.aborted))))
  const add = async (role: 'worker' | 'pmo') => {
    const words = role === 'worker' ? ['--target', target, '--agents', agentsFile] : []
    const member = await startMember(fleet, role, words)
    members.add(member)
    return member
  }
  const crew = await Promise.all([add('pmo'), ...Array.from({ length: workers }, () => add('worker'))])
  screen.say(`a PMO and ${workers} workers are ready (pids ${crew.map((member) => member.pid).join(', ')})`)

  const over = new AbortController()
  const host = await hostTools({
    kernel,
    bell,
    clock: systemClock,
    log,
    host: 'demo',
    projectId,
    tools: { [tools.lookUp]: lookUp },
    signal,
  })
  const watching = watch({ kernel, projectId, screen, signal: AbortSignal.any([signal, over.signal]) }).catch(
    (error: unknown) => {
      log.error({ err: error }, 'the live report has ended early')
    },
  )
  undo.push(async () => {
    over.abort()
    await watching
    await host.stop()
  })

  const played = await play({
    kernel,
    clock: systemClock,
    projectId,
    signal,
    say: (sentence) => (signal.aborted ? undefined : screen.say(sentence)),
    workerOf: (workerId) => [...members].find((member) => member.facts['worker_id'] === workerId),
    async replace(dead) {
      members.delete(dead)
      return add('worker')
    },
  })
  over.abort()
  await watching
  screen.clear()
  if (signal.aborted) return interrupted
  const audit = await auditTurns(kernel.db, projectId, played.turnIds, target)
  process.stdout.write(`\n${finalTable(audit, played, elapsedMs() / 1_000).join('\n')}\n\n`)
  if (audit.stuck.length + audit.lost.length === 0) return 0
  process.stdout.write(`stuck: ${audit.stuck.join(', ')}\nlost: ${audit.lost.join(', ')}\nlogs: ${fleet.logFile}\n`)
  return 1
}

async function lookUp(_args: unknown, signal: AbortSignal): Promise<unknown> {
  await systemClock.sleep(200 + systemRandom.next() * 600, signal)
  return { answer: 42 }
}

/** Keeps the screen fresh until its signal fires. */
async function watch({
  kernel,
  projectId,
  screen,
  signal,
}: Pick<Performance, 'kernel' | 'screen' | 'signal'> & { projectId: string }): Promise<void> {
  let seen = 0
  while (!signal.aborted) {
    const { id, sentences } = await interventionsSince(kernel.db, projectId, seen)
    seen = id
    for (const sentence of sentences) screen.say(sentence)
    screen.show(await liveTable(kernel.db, projectId))
    await systemClock.sleep(lookEveryMs, signal)
  }
}

async function openOwn(url: string, log: Log): Promise<{ kernel: Kernel; bell: Bell; close: () => Promise<void> }> {
  const db = await openDatabase({ url, applicationName: 'bellwether demo', poolSize: 4 })
  await migrate(db)
  const bell = notifyBell({ url, log })
  const close = async () => {
    await bell.close()
    await db.close()
  }
  return { kernel: openKernel({ db, bell, ids: uuidv7(systemClock, systemRandom) }), bell, close }
}

/** The demo plays with its own settings, not with the folder's owner's. */
function withoutSettings(env: DemoOptions['env']): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BELLWETHER__')))
}
