/** Commands that only read a task root need no write permission and change nothing. */
import { chmod, readdir, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { systemDisk, type Disk } from '../../../src/ports/disk/disk.js'
import { canBeOrdinary, ordinaryUser } from '../../../../../scripts/ordinary-user.js'
import { programOf, runCli } from '../../support/process.js'
import { boardOf, line, testRoot } from './test-root.js'

const script = fileURLToPath(new URL('reading-commands.ts', import.meta.url))

it.runIf(canBeOrdinary)(
  '[H5.3] list, show, watch and synthesize work for a user who may not write to the root',
  async () => {
    const root = await testRoot()
    await root.writeLog([line('task_created', 'T-1', { title: 'Read me' })])
    // A snapshot of the reference, which a command that writes imports.
    await writeFile(root.snapshot, JSON.stringify({ tasks: { 'T-1': { history: [], priority: 3 } } }))
    await chmod(root.log, 0o444)
    for (const folder of [`${root.path}/state/locks`, `${root.path}/state`, root.path]) await chmod(folder, 0o555)
    const cli = runCli([root.path], { cwd: '/', program: programOf(script), ...ordinaryUser })
    const code = await cli.ended
    for (const folder of [root.path, `${root.path}/state`, `${root.path}/state/locks`]) await chmod(folder, 0o755)
    expect([code, cli.stderr()]).toEqual([0, ''])
    expect(cli.stdout().match(/^== \w+\n.*\S/gm)).toHaveLength(4)
    expect(cli.stdout()).toContain('Read me')
    expect(await readdir(`${root.path}/state`)).toEqual(['locks', 'tasks.jsonl', 'tasks.snapshot.json'])
  },
)

it('[H5.3] a board that is opened for reading calls no operation of the disk that writes, and rejects a write', async () => {
  const refuse = () => Promise.reject(Object.assign(new Error('read-only file system'), { code: 'EROFS' }))
  const disk: Disk = {
    ...systemDisk,
    openLog: (path, access) => (access === 'read' ? systemDisk.openLog(path, access) : refuse()),
    createExclusive: refuse,
    writeDraft: refuse,
    replace: refuse,
    move: refuse,
    link: refuse,
    remove: refuse,
    makeFolder: refuse,
  }
  const root = await testRoot()
  await root.writeLog([line('task_created', 'T-1'), line('task_claimed', 'T-1')])
  const board = await boardOf(root, { access: 'read', disk, snapshots: true })
  expect(board.state.tasks.get('T-1')?.status).toBe('claimed')
  await root.writeLog([line('task_created', 'T-2')])
  expect([...(await board.sync()).tasks.keys()]).toEqual(['T-2'])
  await expect(board.write(() => [])).rejects.toMatchObject({ code: 'read_only' })
  await board.close()
})
