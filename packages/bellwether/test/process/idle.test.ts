/**
 * What an idle house holds in memory, and how soon it is ready. Counted are `up` and its workers, without PostgreSQL, by their
 * proportional set size: what a process has for itself, and its share of what it has in common with others.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@bellwether/base'
import { expect, it } from 'vitest'
import { ask, testProject } from '../support/folder.js'
import { until } from '../support/until.js'

const built = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const limitMb = 150
// A second start takes two seconds on two quiet cores; a test's machine may have much else to do.
const readyMs = 30_000

/** A process and what descends from it, but for PostgreSQL. */
function family(pid: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    const stat = statOf(Number(name))
    if (stat !== undefined && stat.program !== 'postgres')
      children.set(stat.parent, [...(children.get(stat.parent) ?? []), Number(name)])
  }
  const all = [pid]
  for (const one of all) all.push(...(children.get(one) ?? []))
  return all
}

function statOf(pid: number): { parent: number; program: string } | undefined {
  try {
    const [, program, , parent] = /\((.*)\) (\S) (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
    return { parent: Number(parent), program: program ?? '' }
  } catch {
    return undefined // it ended meanwhile
  }
}

function heldMb(pid: number): number {
  const pss = (one: number) => /^Pss: +(\d+) kB$/m.exec(readFileSync(`/proc/${one}/smaps_rollup`, 'utf8'))?.[1]
  return family(pid).reduce((sum, one) => sum + Number(pss(one)), 0) / 1_024
}

it(
  'an idle house stays below 150 MB besides PostgreSQL, and its second start is ready within seconds',
  { timeout: 180_000 },
  async () => {
    // From source the TypeScript loader would be counted too.
    expect(existsSync(built), 'this test measures the build: npm run build').toBe(true)
    const { up } = await testProject()
    const first = await up([], { program: [built] })
    first.cli.signal('SIGTERM')
    expect(await first.cli.ended).toBe(0)

    const beganMs = systemClock.monotonicMs()
    const { cli, facts } = await up([], { program: [built] })
    expect(systemClock.monotonicMs() - beganMs).toBeLessThan(readyMs)
    const { body } = await ask(facts, '/api/v1/projects/default/workers')
    expect((body['workers'] as unknown[]).length).toBeGreaterThan(0)
    // V8 gives back what the start needed when it sees that nothing happens any more.
    await until(`below ${limitMb} MB`, async () => (heldMb(cli.pid) < limitMb ? true : undefined), 90_000).catch(
      () => undefined,
    )
    expect(heldMb(cli.pid)).toBeLessThan(limitMb)
  },
)
