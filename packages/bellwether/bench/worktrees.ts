/**
 * `npm run worktrees -- [--agents N] [--tasks N] [--kills N] [--seed N] [--minutes N]`: agents of `up` work on many tasks of one repository, in
 * worktrees, while workers, guardians and `up` are killed. Exits with 1 if a change is lost or merged twice, or if anything is left.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runFleet } from '../test/git/up-fleet.js'

const names = { agents: '8', tasks: '200', kills: '60', seed: '1', minutes: '60' } as const
const { values } = parseArgs({
  options: Object.fromEntries(
    Object.entries(names).map(([name, value]) => [name, { type: 'string' as const, default: value }]),
  ),
})
const count = (name: keyof typeof names): number => {
  const text = String(values[name])
  if (/^\d+$/.test(text) && Number(text) >= 1) return Number(text)
  process.stderr.write(`--${name} must be a whole number, 1 or more\n`)
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'worktrees-'))
// The database of root has an account of its own, which must reach its folder.
chmodSync(folder, 0o755)
const report = await runFleet({
  folder,
  agents: count('agents'),
  tasks: count('tasks'),
  kills: count('kills'),
  seed: count('seed'),
  withinMs: count('minutes') * 60_000,
  say: (line) => void process.stderr.write(`${line}\n`),
})
process.stdout.write(`${JSON.stringify({ ...report, folder }, undefined, 2)}\n`)
if (report.violations.length > 0) process.exit(1)
rmSync(folder, { recursive: true, force: true })
