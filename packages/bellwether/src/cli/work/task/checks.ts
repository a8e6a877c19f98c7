/**
 * Where checks and verify commands run that a command starts without a server: in the sandbox of agents, because they execute what agents wrote. The
 * checks of a folder that this account does not trust, such as a clone, neither leave it nor read variables of this account.
 */
import { resolve } from 'node:path'
import { environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { inheritedEnvironment } from '../../../ports/processes/environment.js'
import { tokenName } from '../../../ports/processes/token.js'
import { storedTasks } from '../../../runtime/control/effects.js'
import { openProject, trustFolderOf } from '../../../runtime/control/trust.js'
import { openCheckSandbox, type CheckSandbox } from '../../../runtime/parts/board/check-sandbox.js'
import { dataFolderOf } from '../../../runtime/data-folder.js'
import type { Settings } from '../../../settings/schema.js'
import type { Opened } from './root.js'

export function checksOf({ all, board, log }: Opened): CheckSandbox {
  // Another account keeps its own: only root can change to the one of agents.
  const settings = process.geteuid?.() === 0 ? all : { ...all, worker: { ...all.worker, run_as: undefined } }
  const sandbox = openCheckSandbox({ log, settings, root: board.root, dataDir: dataFolderOf(board.root) })
  return (spec, workspace) => {
    const enter = sandbox(spec, workspace)
    return async (command) => {
      const needs = neededTrust((spec.sandbox ?? settings.worker.sandbox) === 'none', command.env)
      if (needs !== undefined && !isTrusted(board.root, all))
        throw new InvalidInput(`The files of ${board.root} are not trusted, and the check ${needs}`, {
          code: 'not_trusted',
          hint: 'read what `bellwether trust` shows, and accept it; commands of tasks that came with the folder belong into config/acceptance-policy.json',
        })
      return enter(command)
    }
  }
}

function neededTrust(isOutside: boolean, env: Readonly<Record<string, string>>): string | undefined {
  if (isOutside) return 'has no sandbox'
  const usual = inheritedEnvironment([], environment())
  const named = Object.keys(env).filter((name) => env[name] === environment()[name] && !(name in usual))
  return named.some((name) => name !== tokenName) ? `reads ${named.join(', ')}` : undefined
}

/** Whether a person has accepted the files of this folder as they are, with its tasks. */
function isTrusted(root: string, { board }: Settings): boolean {
  const isHere = resolve(board.root ?? '.') === root
  const folder = isHere ? process.cwd() : root
  const project = { folder, root: isHere ? (board.root ?? '.') : '.' }
  const { record, untrusted, held } = openProject(project, trustFolderOf(folder))
  return record?.effects.includes(storedTasks.id) === true && untrusted.length === 0 && held.length === 0
}
