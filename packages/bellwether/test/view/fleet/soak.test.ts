/** Runs a short soak as a separate process: the same steps as the long one, once each. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { programOf } from '../../support/process.js'
import { thorough } from '../../support/thorough.js'

const soak = fileURLToPath(new URL('../../../bench/soak.ts', import.meta.url))

// Its short form takes 40 s. The requirements have quicker tests; this one adds load.
describe('a soak', () => {
  it.runIf(thorough)(
    '[V6.6] [V2.2] [V2.3] [V1.2] a soak leaves the view equal to the disk after a queue overflow and a killed auditor',
    async () => {
      const child = spawn(process.execPath, [
        ...programOf(soak),
        '--seconds',
        '2',
        '--writers',
        '1',
        '--seed',
        '3',
        '--json',
      ])
      let [out, errors] = ['', '']
      child.stdout.on('data', (data: Buffer) => (out += data.toString()))
      child.stderr.on('data', (data: Buffer) => (errors += data.toString()))
      await once(child, 'close')
      expect(out, errors).toMatch(/^\{/)
      const report = JSON.parse(out) as { trouble: Record<string, number> } & Record<string, unknown>
      expect(report).toMatchObject({
        differences_after_two_audits: 0,
        differences: [],
        suspects: 0,
        tombstones: 0,
        blind_additions_not_on_disk: [],
        blind_deletions_on_disk: [],
        ok: true,
      })
      expect(report.trouble['freeze_and_overflow']).toBeGreaterThan(0)
      expect(report.trouble['kill_an_audit']).toBeGreaterThan(0)
    },
    600_000,
  )
})
