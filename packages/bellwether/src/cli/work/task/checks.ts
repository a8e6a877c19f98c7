/** Where checks and verify commands run that a command starts without a server: in the sandbox of agents, because they execute what agents wrote. */
import { openCheckSandbox, type CheckSandbox } from '../../../runtime/parts/board/check-sandbox.js'
import { dataFolderOf } from '../../../runtime/data-folder.js'
import type { Opened } from './root.js'

export function checksOf({ all, board, log }: Opened): CheckSandbox {
  // Another account keeps its own: only root can change to the one of agents.
  const settings = process.geteuid?.() === 0 ? all : { ...all, worker: { ...all.worker, run_as: undefined } }
  return openCheckSandbox({ log, settings, root: board.root, dataDir: dataFolderOf(board.root) })
}
