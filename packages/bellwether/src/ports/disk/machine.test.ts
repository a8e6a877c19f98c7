import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it, onTestFinished, vi } from 'vitest'
import { mountType, systemMachine } from './machine.js'

const mounts = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /proc rw - proc proc rw
41 22 0:40 / /mnt/share rw - nfs4 server:/x rw
42 22 0:41 / /mnt/with\\040space rw - fuse.sshfs host: rw
43 41 0:42 / /mnt/share/deep rw - tmpfs tmpfs rw`

it('finds the mount that contains a path', () => {
  expect(mountType(mounts, '/home/x')).toBe('ext4')
  expect(mountType(mounts, '/mnt/share')).toBe('nfs4')
  expect(mountType(mounts, '/mnt/shared')).toBe('ext4')
  expect(mountType(mounts, '/mnt/share/deep/er')).toBe('tmpfs')
  expect(mountType(mounts, '/mnt/with space/x')).toBe('fuse.sshfs')
  expect(mountType('', '/x')).toBeUndefined()
})

it('describes this process and reports impossible pids as dead', async () => {
  const me = systemMachine.process(process.pid)
  expect(me.alive).toBe(true)
  expect(Math.abs(me.startedAtMs! - (Date.now() - process.uptime() * 1_000))).toBeLessThan(5_000)
  expect(systemMachine.process(2 ** 30).alive).toBe(false)
  for (const pid of [0, -1, 1.5, Number.NaN]) expect(systemMachine.process(pid).alive).toBe(false)
  expect(await systemMachine.filesystem('/proc')).toBe('proc')
})

it('reports a process that has ended as dead before its parent reads its exit code', async () => {
  // `exec` replaces the parent by a program that does not wait for children; the child ends only after that.
  const child = 'until read -r name < /proc/$PPID/comm && [ "$name" = sleep ]; do sleep 0.01; done'
  const parent = spawn('/bin/sh', ['-c', 'sh -c "$0" & echo $!; exec sleep 900', child])
  onTestFinished(() => void parent.kill('SIGKILL'))
  const [text] = (await once(parent.stdout, 'data')) as [Buffer]
  const pid = Number(text.toString())
  await vi.waitFor(() => expect(systemMachine.process(pid).alive).toBe(false), { timeout: 120_000 })
  expect(() => process.kill(pid, 0)).not.toThrow()
})
