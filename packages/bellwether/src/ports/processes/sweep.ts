/**
 * Kills processes that earlier turns left on this machine: those whose worker has ended, and, before a command of an agent starts,
 * those of earlier epochs of the same agent. It kills only processes with a token of the same installation, and never those of a newer
 * epoch, because the caller itself may be outdated.
 */
import type { Clock } from '@bellwether/base'
import { removeEmptyCgroups } from './cgroup.js'
import { killTree } from './kill-tree.js'
import { readProcess, readProcesses, type Self } from './proc.js'
import { readToken, type TurnToken } from './token.js'

export interface SweepOptions {
  readonly clock: Clock
  readonly graceMs: number
  readonly installation: string
}

/** Returns the number of processes found. */
async function sweep({ clock, graceMs }: SweepOptions, outdated: (token: TurnToken) => boolean): Promise<number> {
  const wanted = (text: string) => {
    const token = readToken(text)
    return token !== undefined && outdated(token)
  }
  const found = readProcesses().filter(({ token }) => token !== undefined && wanted(token)).length
  if (found > 0) await killTree({ clock, graceMs, wanted })
  return found
}

export async function sweepOrphans(options: SweepOptions, self: Self): Promise<number> {
  const swept = await sweep(options, (token) => {
    if (token.installation !== options.installation || token.namespace !== self.namespace) return false
    const worker = readProcess(token.workerPid)
    return worker === undefined || worker.zombie || worker.start !== token.workerStart
  })
  removeEmptyCgroups()
  return swept
}

export function sweepOlder(
  options: SweepOptions,
  mine: Pick<TurnToken, 'projectId' | 'agentId' | 'turnEpoch'>,
): Promise<number> {
  return sweep(
    options,
    (token) =>
      token.installation === options.installation &&
      token.projectId === mine.projectId &&
      token.agentId === mine.agentId &&
      token.turnEpoch < mine.turnEpoch,
  )
}
