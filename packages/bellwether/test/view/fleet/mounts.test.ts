/** Runs a short fuzz on several mounts as a separate process: `npm run fuzz:mounts` runs the long one. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { programOf } from '../../support/process.js'

const fuzz = fileURLToPath(new URL('../../../bench/fuzz-mounts.ts', import.meta.url))

describe('a fuzz on several mounts', () => {
  it('[V6.6] [V6.1] [V1.2] one audit after kills, freezes and changes on several mounts makes the view equal to the disk', async () => {
    const args = ['--runs', '1', '--rounds', '1', '--steps', '10', '--seed', '2', '--json']
    const child = spawn(process.execPath, [...programOf(fuzz), ...args])
    let [out, errors] = ['', '']
    child.stdout.on('data', (data: Buffer) => (out += data.toString()))
    child.stderr.on('data', (data: Buffer) => (errors += data.toString()))
    await once(child, 'close')
    expect(out, errors).toMatch(/^\[/)
    const [report] = JSON.parse(out) as readonly { readonly changes: number }[]
    expect(report, errors).toMatchObject({ ok: true, problems: [], differences: [] })
    expect(report!.changes).toBeGreaterThan(10)
  }, 600_000)
})
