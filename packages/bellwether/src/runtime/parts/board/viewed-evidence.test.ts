/** What the board learns from a view's findings, and when the disk of this machine decides instead. */
import { expect, it } from 'vitest'
import type { FileEvidence } from '../../../board/ports.js'
import type { FileFinding } from '../../../view/queries/file-evidence.js'
import { viewedEvidence } from './viewed-evidence.js'

const disk = { path: 'f', found: 'present', from: 'disk', size: 5, sha256: 'abc', changedSince: false } as const

function inspect(finding: Partial<FileFinding>, onDisk: Partial<FileEvidence> = {}): Promise<readonly FileEvidence[]> {
  const evidence = viewedEvidence({
    path: '/root',
    local: {
      changeToken: async () => '7',
      inspect: async () => [{ ...disk, ...onDisk }],
      changedFiles: async () => null,
    },
    files: {
      changeToken: async () => 'v',
      checkFiles: async ([path]) => [{ path: path!, found: 'present', kind: 'file', size: 5, ...finding }],
    },
  })
  return evidence.inspect(['f'], '7:v')
}

it('[V7.1] a present file is reported from the view, with the hash of the disk only if the sizes agree', async () => {
  expect(await inspect({ changedSince: true })).toEqual([{ ...disk, from: 'view', changedSince: true }])
  const { sha256: _, ...unhashed } = disk
  expect(await inspect({ changedSince: true, size: 6 })).toEqual([
    { ...unhashed, from: 'view', size: 6, changedSince: true },
  ])
})

it('[V7.1] a directory counts as missing, and a file that the view cannot check yet as not ready', async () => {
  expect(await inspect({ kind: 'directory' })).toEqual([{ path: 'f', found: 'missing', from: 'view' }])
  expect(await inspect({ found: 'missing' })).toEqual([{ path: 'f', found: 'missing', from: 'view' }])
  expect(await inspect({ found: 'not_ready' })).toEqual([{ path: 'f', found: 'not_ready', from: 'view' }])
})

it('[V7.1] the disk decides about excluded paths and symbolic links', async () => {
  expect(await inspect({ found: 'excluded' })).toEqual([disk])
  expect(await inspect({ kind: 'symlink', changedSince: true })).toEqual([disk])
})

it('[V7.1] if the view restarted after the run began, the disk says whether the file changed; without the file it counts as changed', async () => {
  expect(await inspect({})).toEqual([disk])
  expect(await inspect({}, { found: 'missing' })).toEqual([
    { path: 'f', found: 'present', from: 'view', size: 5, changedSince: true },
  ])
})
