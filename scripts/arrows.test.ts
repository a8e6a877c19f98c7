/** Plants one violation of each arrow in a copy of the layout and sees it caught; an honest tree stays clean. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { findBrokenArrows } from './arrows.js'

const parts = ['ports', 'settings', 'kernel', 'pmo', 'worker', 'board', 'view', 'http', 'cli']
const made: string[] = []

function tree(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), 'arrows-'))
  made.push(root)
  const all: Record<string, string> = { 'scripts/one.ts': 'export {}' }
  for (const name of ['protocol', 'sensor', 'dashboard', 'demo', 'bellwether']) {
    const exports = { '.': { '@bellwether/source': './src/index.ts', default: './dist/index.js' } }
    const fullName = name === 'bellwether' ? name : `@bellwether/${name}`
    const dependencies = { '@bellwether/protocol': '1', bellwether: '1' }
    all[`packages/${name}/package.json`] = JSON.stringify({ name: fullName, type: 'module', exports, dependencies })
    all[`packages/${name}/src/index.ts`] = 'export const word = 1'
  }
  for (const part of parts) all[`packages/bellwether/src/${part}/a.ts`] = `export const ${part} = 1`
  all['packages/bellwether/src/runtime/runtime.ts'] = 'export const runtime = 1'
  all['packages/bellwether/test/support/a.ts'] = 'export const support = 1'
  all['packages/bellwether/sim/world.ts'] = 'export const world = 1'
  Object.assign(all, files)
  for (const [path, text] of Object.entries(all)) {
    mkdirSync(join(root, dirname(path)), { recursive: true })
    writeFileSync(join(root, path), `${text}\n`)
  }
  mkdirSync(join(root, 'node_modules/@bellwether'), { recursive: true })
  symlinkSync('../../packages/protocol', join(root, 'node_modules/@bellwether/protocol'))
  symlinkSync('../packages/bellwether', join(root, 'node_modules/bellwether'))
  return root
}

const problemsOf = (files: Readonly<Record<string, string>>) => findBrokenArrows(tree(files)).problems

afterEach(() => {
  for (const root of made.splice(0)) rmSync(root, { recursive: true })
})

describe('import arrows', () => {
  it('accept the arrows that the architecture draws', () => {
    const problems = problemsOf({
      'packages/sensor/src/x.ts': `export * from '@bellwether/protocol'`,
      'packages/bellwether/src/settings/x.ts': `export * from '@bellwether/protocol'`,
      'packages/bellwether/src/ports/x.ts': `export * from '@bellwether/protocol'`,
      'packages/bellwether/src/kernel/x.ts': `export * from '../ports/x.js'\nexport * from '../settings/x.js'`,
      'packages/bellwether/src/pmo/x.ts': `export * from '../kernel/x.js'`,
      'packages/bellwether/src/worker/x.ts': `import type { word } from '../kernel/x.js'\nexport type A = typeof word`,
      'packages/bellwether/src/board/x.ts': `export * from '../ports/x.js'`,
      'packages/bellwether/src/board/tasks/x.ts': `export * from '../log/a.js'`,
      'packages/bellwether/src/board/log/a.ts': `export const log = 1`,
      'packages/bellwether/src/http/x.ts': `export * from '../board/x.js'\nexport * from '../kernel/a.js'`,
      'packages/bellwether/src/runtime/runtime.ts': `export * from '../http/x.js'\nexport * from '../view/a.js'`,
      'packages/bellwether/src/cli/x.ts': `export * from '../runtime/runtime.js'`,
      'packages/bellwether/src/kernel/x.test.ts': `import '../../test/support/a.js'`,
      'packages/bellwether/sim/x.ts': `import '../src/pmo/x.js'\nimport './world.js'`,
    })
    expect(problems).toEqual([])
  })

  const planted: [what: string, rule: string, path: string, text: string][] = [
    ['the kernel importing the pmo', 'arrows-of-kernel', 'kernel/b.ts', `export * from '../pmo/a.js'`],
    ['a port importing the kernel', 'arrows-of-ports', 'ports/b.ts', `export * from '../kernel/a.js'`],
    ['settings importing a port', 'arrows-of-settings', 'settings/b.ts', `export * from '../ports/a.js'`],
    ['the pmo importing a worker', 'arrows-of-pmo', 'pmo/b.ts', `export * from '../worker/a.js'`],
    ['a worker importing the pmo', 'arrows-of-worker', 'worker/b.ts', `export * from '../pmo/a.js'`],
    ['the board importing the kernel', 'arrows-of-board', 'board/b.ts', `export * from '../kernel/a.js'`],
    ['the board’s log importing its tasks', 'arrows-of-board-log', 'board/log/b.ts', `export * from '../tasks/a.js'`],
    ['the view importing the kernel', 'arrows-of-view', 'view/b.ts', `export * from '../kernel/a.js'`],
    ['the view importing the board', 'arrows-of-view', 'view/c.ts', `export * from '../board/a.js'`],
    ['http importing the runtime', 'arrows-of-http', 'http/b.ts', `export * from '../runtime/runtime.js'`],
    ['the runtime importing the cli', 'arrows-of-runtime', 'runtime/b.ts', `export * from '../cli/a.js'`],
    ['a type import', 'arrows-of-board', 'board/c.ts', `import type { K } from '../kernel/a.js'\nexport type A = K`],
    ['a dynamic import', 'arrows-of-board', 'board/d.ts', `export const later = () => import('../kernel/a.js')`],
    ['a part that no arrow names', 'known-part', 'misc/b.ts', `export * from '../ports/a.js'`],
    ['a use of a part that no arrow names', 'arrows-of-kernel', 'kernel/c.ts', `export * from '../misc/b.js'`],
    ['a cycle', 'no-cycle', 'ports/c.ts', `export * from './d.js'`],
    ['test support inside the source', 'src-alone', 'ports/e.ts', `export * from '../../test/support/a.js'`],
    ['the simulation inside the source', 'src-alone', 'kernel/d.ts', `export * from '../../sim/world.js'`],
    [
      'a relative path into a package',
      'packages-by-name',
      'ports/f.ts',
      `export * from '../../../protocol/src/index.js'`,
    ],
    ['a deep path into a package', 'resolvable', 'ports/g.ts', `export * from '@bellwether/protocol/src/index.js'`],
    ['an import that leads nowhere', 'resolvable', 'ports/h.ts', `export * from './nowhere.js'`],
  ]
  const closed = ['base', 'sensor', 'dashboard', 'protocol', 'demo']
  let found: string[] = []

  beforeAll(() => {
    const files: Record<string, string> = {
      'packages/bellwether/src/ports/d.ts': `export * from './c.js'`,
      'packages/bellwether/src/board/tasks/a.ts': `export const tasks = 1`,
    }
    for (const [, , path, text] of planted) files[`packages/bellwether/src/${path}`] = text
    for (const name of closed) files[`packages/${name}/src/b.ts`] = `export * from 'bellwether'`
    found = problemsOf(files)
  })

  it.each(planted)('refuse %s', (_what, rule, path) => {
    expect(found).toContainEqual(expect.stringContaining(`${rule}: packages/bellwether/src/${path} `))
  })

  it.each(closed)('refuse the product inside %s', (name) => {
    expect(found).toContainEqual(expect.stringContaining(`arrows-of-package-${name}: packages/${name}/src/b.ts `))
  })

  it('refuse a tree in which there is nothing to check', () => {
    const root = mkdtempSync(join(tmpdir(), 'arrows-'))
    made.push(root)
    mkdirSync(join(root, 'packages'))
    mkdirSync(join(root, 'scripts'))
    expect(findBrokenArrows(root).problems.join('\n')).toContain('not-looked-at')
  })
})
