/**
 * Runs the commands of checks in the sandbox that agents have, and as the account that they have: a check executes what an agent wrote. A
 * check with `sandbox: none` runs as it is.
 */
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import { readSelf } from '../../../ports/processes/proc.js'
import { runAs } from '../../../ports/processes/run-as.js'
import type { Enter } from '../../../ports/processes/run-command.js'
import { openSandbox, type SandboxSpec } from '../../../ports/processes/sandbox/sandbox.js'
import { makeScratch } from '../../../ports/processes/scratch.js'
import type { Settings } from '../../../settings/schema.js'
import { cliHomes } from '../../../worker/executors/presets.js'
import { readOnlyPaths } from '../../control/files.js'
import { oldDataFolder, sessionsFolder } from '../../paths.js'

export interface CheckSandboxOptions {
  readonly log: Log
  readonly settings: Settings
  /** The task root. */
  readonly root: string
  readonly dataDir: string
}

/** How a command enters the sandbox, for the folder in which it works. */
export type CheckSandbox = (spec: Pick<SandboxSpec, 'sandbox'>, workspace: string) => Enter

/** The name of checks in log lines. */
const checks = 'checks'

export function openCheckSandbox({ log, settings, root, dataDir }: CheckSandboxOptions): CheckSandbox {
  const { run_as: account, sandbox: fallback, sandbox_missing: missing } = settings.worker
  const other = account === undefined ? undefined : runAs(account)
  const self = readSelf()
  const sandbox = openSandbox({
    log,
    root,
    fallback,
    missing,
    sessions: join(dataDir, sessionsFolder),
    hidden: [dataDir, join(root, oldDataFolder)],
    control: readOnlyPaths(root, settings),
    runAs: other,
  })
  return (spec, workspace) =>
    async ({ command, cwd, env }) => {
      const scratch = makeScratch(self, other?.account)
      const place = { spec, agentId: checks, workspace, cwd, scratch, cli: cliHomes.none, commits: false }
      try {
        const inside = await sandbox.enter({ ...place, command, env: { ...env, ...other?.env } })
        return {
          command: [...(other?.prefix ?? []), ...inside.command],
          env: inside.env,
          onMessage: inside.onMessage,
          isSandboxed: inside.isSandboxed,
          close() {
            inside.close()
            scratch.remove()
          },
        }
      } catch (error) {
        scratch.remove()
        throw error
      }
    }
}
