/**
 * Measures the memory of an idle `up` with its workers, without PostgreSQL. Memory is the proportional set size:
 * private pages plus a share of pages that processes have in common.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { ask, testProject } from '../support/folder.js'
import { until } from '../support/until.js'

const built = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const limitMb = 150

/** A process and its descendants, without PostgreSQL. */
function processTree(pid: number): number[] {
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
    return undefined // the process has ended
  }
}

function memoryMb(pid: number): number {
  const pss = (one: number) => /^Pss: +(\d+) kB$/m.exec(readFileSync(`/proc/${one}/smaps_rollup`, 'utf8'))?.[1]
  return processTree(pid).reduce((sum, one) => sum + Number(pss(one)), 0) / 1_024
}

it('uses less than 150 MB without PostgreSQL while idle, also at its second start', async () => {
  // From source, the TypeScript loader would count too.
  expect(existsSync(built), 'this test measures the build: npm run build').toBe(true)
  const { up } = await testProject()
  const first = await up([], { program: [built] })
  first.cli.signal('SIGTERM')
  expect(await first.cli.ended).toBe(0)

  const { cli, facts } = await up([], { program: [built] })
  const { body } = await ask(facts, '/api/v1/projects/default/workers')
  expect((body['workers'] as unknown[]).length).toBeGreaterThan(0)
  // An idle process collects the garbage of its start after some seconds.
  await until(`below ${limitMb} MB`, async () => (memoryMb(cli.pid) < limitMb ? true : undefined), 90_000).catch(
    () => undefined,
  )
  expect(memoryMb(cli.pid)).toBeLessThan(limitMb)
})
