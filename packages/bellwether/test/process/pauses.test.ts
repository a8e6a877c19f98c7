/**
 * Pauses of the database, the worker and the whole machine, longer than every timeout, while commands run on `up`: none of the commands
 * fails. `npm run thorough` plays them with short timeouts; with BELLWETHER_PAUSES=defaults, each pause lasts 60 s with the default
 * settings. `npm test` has the same pauses for a single worker, in `executors/pause.test.ts`.
 */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { signalTo } from '../../src/ports/processes/kill-tree.js'
import { areStopped } from '../executors/command-setup.js'
import { descendants } from '../support/processes/descendants.js'
import { ask, testProject, type Project } from '../support/folder.js'
import { startOwnPostgres, type OwnPostgres } from '../support/processes/own-postgres.js'
import type { Cli } from '../support/process.js'
import { openSilentProxy, type SilentProxy } from '../support/servers/silent-proxy.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'

const withDefaults = process.env['BELLWETHER_PAUSES'] === 'defaults'
const pauseMs = withDefaults ? 60_000 : 15_000
// Another worker may take over after 5 s, and the guardian freezes after 3 s.
const timings: Readonly<Record<string, string>> = withDefaults
  ? {}
  : {
      BELLWETHER__WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '5',
      BELLWETHER__WORKER__WATCHDOG_INTERVAL_SECONDS: '0.5',
      BELLWETHER__WORKER__BEAT_SECONDS: '0.5',
      BELLWETHER__PMO__WATCHDOG_INTERVAL_SECONDS: '0.5',
      BELLWETHER__PMO__DISPATCHED_TIMEOUT_SECONDS: '30',
      BELLWETHER__PMO__ACTIVE_REAP_SECONDS: '10',
      BELLWETHER__WORKER__MAX_DEATHS: '9',
    }

interface Installation {
  readonly postgres: OwnPostgres
  readonly proxy: SilentProxy
  readonly project: Project
  readonly up: Cli
}

/** `set(true)` begins the pause, `set(false)` ends it. */
const pauses: Readonly<Record<string, (one: Installation, set: boolean) => Promise<void> | void>> = {
  'the database is paused': ({ postgres }, set) => postgres.pause(set),
  'the database is killed and absent': ({ postgres }, set) => (set ? postgres.kill() : postgres.restart()),
  'the network drops all packets to the database': ({ proxy }, set) => proxy.silence(set),
  'the whole machine is frozen': async ({ postgres, up }, set) => {
    const all = [up.pid, ...descendants(up.pid)]
    for (const pid of set ? all : all.toReversed()) signalTo(pid, set ? 'SIGSTOP' : 'SIGCONT')
    await postgres.pause(set)
  },
  'only the worker is frozen': ({ project }, set) => {
    for (const { pid } of project.upFile().workers) if (pid !== null) signalTo(pid, set ? 'SIGSTOP' : 'SIGCONT')
  },
}

const agents = ['one', 'two', 'three']

it.runIf(thorough || withDefaults).each(Object.keys(pauses))(
  'no command fails if %s for longer than every timeout',
  { timeout: 600_000 },
  async (name) => {
    const postgres = await startOwnPostgres()
    onTestFinished(() => postgres.stop())
    const proxy = await openSilentProxy(postgres.url)
    onTestFinished(() => proxy.close())
    const project = await testProject()
    const at = (file: string) => join(project.folder, file)
    for (const agent of agents)
      await writeFile(
        at(`agents/${agent}.md`),
        `---\ncommand: [sh, -c, 'echo >> ran-${agent}; until [ -e go ]; do sleep 0.2; done; echo fine']\n---\n`,
      )
    const { cli: up, facts } = await project.up([], { env: { ...timings, BELLWETHER__DATABASE__URL: proxy.url } })
    const turns: string[] = []
    for (const agent of agents) {
      const path = `/api/v1/projects/default/agents/${agent}/turns`
      const { body } = await ask(facts, path, { method: 'POST', body: { instruction: 'wait' } })
      turns.push(String(body['agent_turn_id']))
    }
    const stopped = (wanted: boolean) => turns.every((turn) => areStopped(turn, wanted)) || undefined
    await until('the commands run', async () => stopped(false))

    const startedMs = systemClock.monotonicMs()
    await pauses[name]!({ postgres, proxy, project, up }, true)
    await until(
      'the pause is over',
      async () => systemClock.monotonicMs() - startedMs > pauseMs || undefined,
      2 * pauseMs,
    )
    await until('the commands are frozen', async () => stopped(true))
    await pauses[name]!({ postgres, proxy, project, up }, false)
    const healedMs = systemClock.monotonicMs()
    await until('the commands run again', async () => stopped(false), 180_000)
    const resumedMs = systemClock.monotonicMs() - healedMs
    await writeFile(at('go'), '')
    const ended = []
    for (const turn of turns) {
      const { body } = await until(`turn ${turn} ends`, async () => {
        const found = await ask(facts, `/api/v1/projects/default/turns/${turn}?wait=20`)
        return found.body['outcome'] === null || found.status !== 200 ? undefined : found
      })
      ended.push({ outcome: body['outcome'], error: body['error'] ?? null })
    }
    const runs = agents.map((agent) => readFileSync(at(`ran-${agent}`), 'utf8').length)
    if (withDefaults)
      process.stderr.write(`${name}: ${JSON.stringify({ resumedMs: Math.round(resumedMs), runs, ended })}\n`)
    expect(ended).toEqual(agents.map(() => ({ outcome: 'success', error: null })))
    // Resumed, or run again: that is the default policy after a takeover.
    expect(Math.min(...runs)).toBeGreaterThan(0)
  },
)
