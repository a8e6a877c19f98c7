import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { findRoot, isNetwork } from '../../../src/board/log/root.js'
import type { BoardChange, Draft } from '../../../src/board/log/task.js'
import { systemDisk, type Disk, type LogFile } from '../../../src/ports/disk/disk.js'
import { systemMachine } from '../../../src/ports/disk/machine.js'
import { add, boardOf, line, testRoot, testWorld } from './test-root.js'

describe('a board', () => {
  it('a board writes drafts with id, tag, time and token, and reads them again', async () => {
    const root = await testRoot()
    const board = await boardOf(root)
    const [first] = await board.write(() => [add('T-1', { priority: 3, dependencies: ['T-0'], instruction: 'do it' })])
    const [claimed, started] = await board.write((state) => {
      expect(state.tasks.get('T-1')!.status).toBe('pending')
      return [
        { taskId: 'T-1', type: 'task_claimed', actor: 'coder' },
        { taskId: 'T-1', type: 'task_started', actor: 'coder', payload: { run: { agent: 'coder' } } },
      ]
    })
    expect(first).toMatchObject({ messageType: '[TASK]', token: 1 })
    expect(claimed).toMatchObject({ messageType: '[CLAIM]', token: 2 })
    expect((await root.lines()).map((text) => JSON.parse(text))).toEqual([first, claimed, started])
    const again = await boardOf(root)
    expect(again.state).toEqual(board.state)
    expect(again.state.tasks.get('T-1')).toMatchObject({
      status: 'in_progress',
      priority: 3,
      dependencies: ['T-0'],
      fields: { instruction: 'do it' },
      runs: [{ runId: started!.eventId, agent: 'coder' }],
    })
    await Promise.all([board.close(), again.close()])
  })

  it('a board reports what it writes, and what another process appends without being asked to read', async () => {
    const root = await testRoot()
    const [board, other] = [await boardOf(root), await boardOf(root)]
    const changes: BoardChange[] = []
    let change = () => {}
    const changed = () => new Promise<void>((resolve) => (change = resolve))
    const release = board.onChange((how) => {
      changes.push(how)
      change()
    })
    await board.write(() => [add('T-1')])
    expect(changes).toEqual(['written'])
    const read = changed()
    await other.write(() => [add('T-2')])
    await read
    expect(changes).toEqual(['written', 'read'])
    expect(board.state.tasks.size).toBe(2)
    release()
    await other.write(() => [add('T-3')])
    await board.write(() => [add('T-4')])
    expect(changes).toEqual(['written', 'read'])
    await Promise.all([board.close(), other.close()])
  })

  it('a board opens a root of the reference without changing a byte, and continues in it', async () => {
    const root = await testRoot()
    const lines = [
      line('task_created', 'T-001', { title: 'one', assigneeHint: 'coder' }),
      line('task_claimed', 'T-001', { from: 'pending', to: 'claimed', owner: 'coder' }),
      line('task_done', 'T-001', { from: 'claimed', to: 'done', result: 'ok' }),
    ]
    // As Python's json module writes it, without the last newline.
    const text = lines.map((one) => JSON.stringify(one, undefined, 1).replaceAll('\n', '')).join('\n')
    await root.writeLog(text)
    const snapshot = JSON.stringify({ tasks: {}, meta: { version: 2, updatedAt: 'x' } }, undefined, 2)
    await writeFile(root.snapshot, snapshot)
    const board = await boardOf(root)
    expect(board.state.tasks.get('T-001')).toMatchObject({
      status: 'done',
      assignee: 'coder',
      fields: { result: 'ok' },
    })
    expect(await readFile(root.log, 'utf8')).toBe(text)
    expect(await readFile(root.snapshot, 'utf8')).toBe(snapshot)
    await board.write(() => [add('T-002')])
    expect((await root.lines()).slice(0, 3).join('\n')).toBe(text)
    expect(board.state.tasks.size).toBe(2)
    expect(board.state.eventCount).toBe(4)
    await board.close()
  })

  it('a board sees what another process appended, on sync and before it decides', async () => {
    const root = await testRoot()
    const [one, two] = [await boardOf(root), await boardOf(root)]
    await one.write(() => [add('T-1')])
    expect(two.state.tasks.size).toBe(0)
    expect((await two.sync()).tasks.size).toBe(1)
    await one.write(() => [add('T-2')])
    await two.write((state) => [add(`T-${state.tasks.size + 1}`)])
    expect([...two.state.tasks.keys()]).toEqual(['T-1', 'T-2', 'T-3'])
    await Promise.all([one.close(), two.close()])
  })

  it('a board writes the same eventId once, and rejects it for another event', async () => {
    const root = await testRoot()
    const board = await boardOf(root)
    const draft = { ...add('T-1'), eventId: 'key-1' }
    const first = await board.write(() => [draft])
    expect(await board.write(() => [draft])).toEqual(first)
    const other = await boardOf(root)
    expect(await other.write(() => [draft, add('T-2')])).toMatchObject([{ eventId: 'key-1' }, { taskId: 'T-2' }])
    expect(await root.lines()).toHaveLength(2)
    await expect(board.write(() => [{ ...add('T-9'), eventId: 'key-1' }])).rejects.toMatchObject({
      code: 'event_id_taken',
    })
    await Promise.all([board.close(), other.close()])
  })

  it('a board writes nothing of a group with an illegal event', async () => {
    const root = await testRoot()
    const board = await boardOf(root)
    await board.write(() => [add('T-1')])
    const cyclic: Record<string, unknown> = {}
    cyclic['self'] = cyclic
    const refused: readonly (readonly [string, Draft])[] = [
      ['invalid_transition', { taskId: 'T-1', type: 'task_done', actor: 'me' }],
      ['task_exists', add('T-1')],
      ['no_such_task', { taskId: 'T-7', type: 'task_claimed', actor: 'me' }],
      ['bad_number', add('T-3', { priority: Number.NaN })],
      ['bad_number', add('T-3', { impact: Number.POSITIVE_INFINITY })],
      ['bad_number', add('T-3', { deep: [{ er: Number.NaN }] })],
      ['too_deep', add('T-3', cyclic)],
      ['bad_dependencies', add('T-3', { dependencies: 'T-1' })],
      ['bad_payload', add('T-3', { big: 5n })],
      ['line_too_long', add('T-3', { text: 'x'.repeat(10 * 2 ** 20) })],
      ['bad_id', add('../../etc/passwd')],
      ['bad_id', add('')],
      ['bad_id', add('a\u0000b')],
      ['bad_id', add('x'.repeat(300))],
    ]
    for (const [code, draft] of refused)
      await expect(
        board.write(() => [add('T-2'), draft]),
        code,
      ).rejects.toMatchObject({ name: 'InvalidInput', code })
    expect(await root.lines()).toHaveLength(1)
    const torn = () => {
      throw new Error('undecided')
    }
    await expect(board.write(torn)).rejects.toThrow('undecided')
    expect((await root.lockNames()).filter((name) => name.endsWith('.lock'))).toEqual([])
    await board.close()
    await expect(board.sync()).rejects.toMatchObject({ code: 'board_closed' })
  })

  it('a board notices that its log file was replaced, and reads it again', async () => {
    const root = await testRoot()
    const board = await boardOf(root)
    await board.write(() => [add('T-1'), add('T-2')])
    const [first] = await root.lines()
    await rm(root.log)
    await writeFile(root.log, `${first}\n`)
    await board.write((state) => {
      expect([...state.tasks.keys()]).toEqual(['T-1'])
      return [add('T-3')]
    })
    expect(await root.lines()).toHaveLength(2)
    await board.close()
  })
})

describe('hostile lines in the log', () => {
  it('hostile lines are reported and stay in the log, and all other lines count', async () => {
    const root = await testRoot()
    const long = JSON.stringify(line('task_created', 'T-long', { text: 'x'.repeat(10 * 2 ** 20) }))
    const deep = JSON.stringify(line('task_created', 'T-deep', { a: 0 })).replace(
      '"a":0',
      `"a":${'['.repeat(100_000)}${']'.repeat(100_000)}`,
    )
    const parts = [
      JSON.stringify(line('task_created', 'T-1')),
      long,
      deep,
      JSON.stringify(line('task_created', 'T-nan')).replace('"payload":{}', '"payload":{"priority":NaN}'),
      JSON.stringify(line('task_created', 'T-inf')).replace('"payload":{}', '"payload":{"priority":1e999}'),
      Buffer.from(JSON.stringify(line('task_created', 'T-\u00ff')), 'latin1'),
      '\u0000\u0000\u0000\u0000',
      JSON.stringify(line('task_created', 'T-2')),
    ]
    const bytes = Buffer.concat(parts.flatMap((part) => [Buffer.from(part), Buffer.from('\n')]))
    await root.writeLog(bytes)
    const warnings: object[] = []
    const log = { ...testWorld.log, warn: (fields: object) => void warnings.push(fields) }
    const board = await boardOf(root, { log })
    expect([...board.state.tasks.keys()]).toEqual(['T-1', 'T-inf', 'T-2'])
    expect(board.state.tasks.get('T-inf')!.priority).toBe(0)
    expect(warnings).toContainEqual(
      expect.objectContaining({ counts: { too_long: 1, too_deep: 1, broken_json: 2, not_utf8: 1 } }),
    )
    await board.write(() => [add('T-3')])
    expect((await readFile(root.log)).subarray(0, bytes.length).equals(bytes)).toBe(true)
    await board.close()
  })
})

describe('the place of a root', () => {
  it('a root on a network filesystem is rejected with the reason', async () => {
    const root = await testRoot()
    for (const type of ['nfs', 'nfs4', 'cifs', 'smb3', 'fuse.sshfs', 'fuse.s3fs', '9p', 'ceph', 'glusterfs'])
      expect(isNetwork(type), type).toBe(true)
    for (const type of ['ext4', 'xfs', 'btrfs', 'tmpfs', 'overlay', 'zfs', 'apfs', 'fuse.fuse-overlayfs', 'fuseblk'])
      expect(isNetwork(type), type).toBe(false)
    const machine = { ...systemMachine, filesystem: async () => 'nfs4' }
    await expect(boardOf(root, { machine })).rejects.toMatchObject({ code: 'network_filesystem' })
  })

  it('a root must be a folder, and its folders and files must be inside it', async () => {
    await expect(boardOf('/nowhere/at/all')).rejects.toMatchObject({ code: 'no_such_root' })
    const [root, other] = [await testRoot(), await testRoot()]
    await rm(join(root.path, 'state'), { recursive: true })
    const elsewhere = join(other.path, 'elsewhere')
    await mkdir(elsewhere)
    await symlink(elsewhere, join(root.path, 'state'))
    await expect(boardOf(root)).rejects.toMatchObject({ code: 'symlink_refused' })
    expect(await readdir(elsewhere)).toEqual([])
    await rm(join(root.path, 'state'))
    await mkdir(join(root.path, 'state'))
    await symlink(tmpdir(), join(root.path, 'state', 'locks'))
    await expect(boardOf(root)).rejects.toMatchObject({ code: 'symlink_refused' })
    await rm(join(root.path, 'state', 'locks'))
    await symlink(join(other.path, 'somewhere'), root.log)
    await expect(boardOf(root)).rejects.toMatchObject({ code: 'symlink_refused' })
    await rm(root.log)
    await mkdir(root.log)
    await expect(boardOf(root)).rejects.toMatchObject({ code: 'no_regular_file' })
    await expect(findRoot(root.log.slice(0, -1), testWorld)).rejects.toMatchObject({ code: 'no_such_root' })
  })
})

/** A disk whose log can be made to fail. */
function failing(plan: { flush?: number; append?: number; short?: number }): Disk {
  const wrap = (file: LogFile): LogFile => ({
    ...file,
    append: async (bytes) => {
      if (plan.append !== undefined && plan.append-- === 0) throw Object.assign(new Error('EIO'), { code: 'EIO' })
      if (plan.short !== undefined && plan.short-- === 0) {
        await file.append(bytes.subarray(0, 20))
        throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
      }
      return file.append(bytes)
    },
    flush: async () => {
      if (plan.flush !== undefined && plan.flush-- > 0) throw Object.assign(new Error('EIO'), { code: 'EIO' })
      await file.flush()
    },
  })
  return {
    ...systemDisk,
    openLog: async (path, access) => {
      const file = await systemDisk.openLog(path, access)
      return file === 'missing' ? file : wrap(file)
    },
  }
}

describe('a disk that fails', () => {
  it('after a failed fsync the log is reopened, and the group counts once', async () => {
    const root = await testRoot()
    const board = await boardOf(root, { disk: failing({ flush: 1 }) })
    const [event] = await board.write(() => [add('T-1')])
    expect(board.state.eventCount).toBe(1)
    expect((await root.lines()).every((text) => text.includes(event!.eventId))).toBe(true)
    await board.close()
    expect((await boardOf(root)).state.eventCount).toBe(1)
  })

  it('if every fsync fails nothing is acknowledged, and a retry with the same id is safe', async () => {
    const root = await testRoot()
    const board = await boardOf(root, { disk: failing({ flush: 2 }) })
    const draft = { ...add('T-1'), eventId: 'once' }
    await expect(board.write(() => [draft])).rejects.toMatchObject({ name: 'Retryable', code: 'write_unconfirmed' })
    await board.write(() => [draft])
    expect((await boardOf(root)).state.eventCount).toBe(1)
    await board.close()
  })

  it('a full disk leaves a torn line, which the next writer closes and never cuts', async () => {
    const root = await testRoot()
    const board = await boardOf(root, { disk: failing({ short: 1 }) })
    await board.write(() => [add('T-1')])
    await expect(board.write(() => [add('T-2')])).rejects.toMatchObject({ name: 'Retryable', code: 'disk_full' })
    const torn = await readFile(root.log)
    await board.write(() => [add('T-3')])
    const after = await readFile(root.log)
    expect(after.subarray(0, torn.length + 1).equals(Buffer.concat([torn, Buffer.from('\n')]))).toBe(true)
    expect([...(await boardOf(root)).state.tasks.keys()]).toEqual(['T-1', 'T-3'])
    await board.close()
  })
})
