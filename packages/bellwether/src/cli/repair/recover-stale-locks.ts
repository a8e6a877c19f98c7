/** `bellwether recover-stale-locks`: lists locks whose holder is gone, and with --apply reclaims them. */
import { defined } from '@bellwether/base'
import { InvalidArgumentError, type Command } from 'commander'
import type { LockInfo } from '../../board/log/locks/lock-audit.js'
import { recoverStaleLocks, type RecoverReport } from '../../board/repair/recover-locks.js'
import { exitCodes } from '../shared/output.js'
import { applies, rootCommand, sanitized, printReport, toolPorts, type RootFlags } from './task-root.js'

interface Flags extends RootFlags {
  readonly force?: boolean
  readonly yes?: boolean
  readonly graceSec?: number
}

export function recoverStaleLocksCommand(finish: (code: number) => void): Command {
  return rootCommand('recover-stale-locks', 'list the stale locks of a task root; with --apply reclaim them')
    .option('--force', 'also reclaim locks that are younger than their TTL')
    .option('-y, --yes', 'reclaim more than one lock at once')
    .option('--grace-sec <n>', 'how long a lock stays valid after its expiry (default: 15)', seconds)
    .action(async (flags: Flags) => {
      const { root, force = false, yes = false, graceSec } = flags
      const report = await recoverStaleLocks(
        {
          root,
          apply: applies(flags),
          force,
          yes,
          ...defined({ graceMs: graceSec === undefined ? undefined : graceSec * 1_000 }),
        },
        toolPorts(),
      )
      printReport(flags, report, () => formatText(report))
      finish(report.ok ? exitCodes.ok : exitCodes.failure)
    })
}

function formatText({
  mode,
  root,
  scanned,
  candidates,
  held,
  reclaimed,
  refused,
  errors,
}: RecoverReport): readonly string[] {
  const lines = [`${root}: ${scanned} ${scanned === 1 ? 'lock' : 'locks'}, ${candidates.length} to reclaim`]
  for (const one of held) lines.push(`  valid     ${line(one)}  ${one.why}`)
  for (const one of candidates) {
    const word = reclaimed.includes(one) ? 'reclaimed' : 'stale    '
    lines.push(`  ${word} ${line(one)}  ${one.reason}${one.broken === null ? '' : ` (lock file ${one.broken})`}`)
  }
  for (const { path, error } of errors) lines.push(`  failed    ${sanitized(path)}: ${sanitized(error)}`)
  if (refused !== null) lines.push(`Not applied: ${refused}`)
  else if (mode === 'dry-run' && candidates.length > 0) lines.push('Nothing was changed. Add --apply to reclaim.')
  return lines
}

function line(one: LockInfo): string {
  const name = one.path.slice(one.path.lastIndexOf('/') + 1)
  return `${sanitized(name)}  ${sanitized(one.owner)} (pid ${one.pid ?? '?'} on ${sanitized(one.host ?? 'an unknown host')}), ${one.ageSec} s old`
}

function seconds(text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number) && number >= 0 && number <= 86_400) return number
  throw new InvalidArgumentError('Use a number of seconds from 0 to 86400.')
}
