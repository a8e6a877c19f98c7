/** A dispatcher for commands that check or merge, and never spawn a turn. */
import type { Dispatcher } from '../../../board/dispatch/dispatcher.js'
import type { Spawner } from '../../../board/ports.js'
import { openDispatcher } from '../../../runtime/parts/board/board.js'
import { openEvidence } from '../../../runtime/parts/board/evidence.js'
import { checksOf } from './checks.js'
import type { Opened } from './root.js'

export function idleDispatcher(opened: Opened, actor: string): Dispatcher {
  const { board, ids, settings } = opened
  const evidence = openEvidence({ settings, root: board.root, ids })
  return openDispatcher(opened, { spawner: noSpawner, evidence, actor, sandbox: checksOf(opened) })
}

const noSpawner: Spawner = {
  missingAgents: async () => [],
  hasAgents: async () => true,
  workspaceOf: async () => ({}),
  kernel: async () => null,
  spawn: () => Promise.reject(new Error('this command does not spawn turns')),
  status: async () => ({ status: 'unknown' }),
  ended: async () => ({ status: 'unknown' }),
  stop: async () => undefined,
}
