/** Runs the bin file in a copy of this clone that was never built, as a newcomer does right after `npm ci`. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const notCopied = ['node_modules', 'dist', 'test', 'sim', 'bench']

/** Copies the sources; links the installed packages, and ours to the copy. */
function copyClone(): string {
  const copy = mkdtempSync(join(tmpdir(), 'bellwether-bin-'))
  onTestFinished(() => rmSync(copy, { recursive: true }))
  for (const name of ['package.json', 'tsconfig.base.json']) cpSync(join(root, name), join(copy, name))
  cpSync(join(root, 'packages'), join(copy, 'packages'), {
    recursive: true,
    filter: (path) =>
      !notCopied.includes(path.slice(root.length).split(sep)[2] ?? '') && !path.endsWith('.tsbuildinfo'),
  })
  const own = join(root, 'packages', 'dashboard', 'node_modules')
  symlinkSync(own, join(copy, 'packages', 'dashboard', 'node_modules'))
  const modules = join(copy, 'node_modules')
  mkdirSync(join(modules, '@bellwether'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name !== '@bellwether' && name !== 'bellwether')
      symlinkSync(join(root, 'node_modules', name), join(modules, name))
  }
  for (const name of readdirSync(join(copy, 'packages')))
    symlinkSync(join(copy, 'packages', name), join(modules, name === 'bellwether' ? name : join('@bellwether', name)))
  return copy
}

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

function version(copy: string): Promise<Ended> {
  const bin = join(copy, 'packages', 'bellwether', 'bin', 'bellwether.js')
  return new Promise((resolve) =>
    execFile(bin, ['--version'], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    ),
  )
}

it('the bin file builds an unbuilt clone once, also when two commands start at once', async () => {
  const copy = copyClone()
  const both = await Promise.all([version(copy), version(copy)])
  const stderr = both.map((ended) => ended.stderr).join('')
  expect(both, stderr).toMatchObject([
    { code: 0, stdout: '0.1.0\n' },
    { code: 0, stdout: '0.1.0\n' },
  ])
  expect(stderr).toMatch(/^bellwether: dist is missing; building\nbellwether: built in [\d.]+ s\n$/)
  expect(await version(copy)).toEqual({ code: 0, stdout: '0.1.0\n', stderr: '' })

  const source = join(copy, 'packages', 'base', 'src', 'index.ts')
  const built = statSync(join(copy, 'packages', 'base', 'tsconfig.tsbuildinfo')).mtimeMs / 1_000
  utimesSync(source, built + 1, built + 1)
  expect((await version(copy)).stderr).toContain(
    'packages/base/tsconfig.tsbuildinfo is older than the source; building',
  )
})
