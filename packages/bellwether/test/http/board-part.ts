/** The board of a fresh task root for a server in this process, dispatching to the server's own kernel. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { openFeed } from '../../src/board/log/feed.js'
import type { BoardParts } from '../../src/http/routes/board.js'
import { systemDisk } from '../../src/ports/disk/disk.js'
import { auditCommands, openDispatcher } from '../../src/runtime/parts/board/board.js'
import { openTaskRoot } from '../../src/runtime/parts/board/task-root.js'
import { kernelSpawner } from '../../src/runtime/parts/board/spawner.js'
import { loadSettings } from '../../src/settings/load.js'
import { project } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { quietLog as log } from '../support/quiet-log.js'
import type { PartContext } from './test-server.js'

export async function boardPart({ kernel, signal, atEnd }: PartContext): Promise<BoardParts> {
  const root = await testFolder()
  const { board: settings } = loadSettings({ folder: root, env: {} })
  const opened = await openTaskRoot({ root, owner: 'test', settings, log, signal })
  const dispatcher = openDispatcher(opened, {
    spawner: kernelSpawner({ kernel, projectId: project, clock: systemClock, log }),
    evidence: { changeToken: async () => 'token', inspect: async () => [], changedFiles: async () => null },
    actor: 'server',
    onCommand: auditCommands(kernel.db, log),
  })
  const feed = await openFeed(join(root, 'state', 'tasks.jsonl'), systemDisk)
  atEnd(async () => {
    await feed.close()
    await opened.alerts.settled()
    await opened.board.close()
    await rm(root, { recursive: true, force: true })
  })
  return { dispatcher, caches: opened.caches, feed, projectId: project, clock: systemClock, log, signal }
}
