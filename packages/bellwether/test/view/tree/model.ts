/**
 * A reference model of the tree: a Map from path to entry that answers every query by a full pass, slow but obviously correct.
 * Also the arbitrary sequences of writes that tests apply to both.
 */
import fc from 'fast-check'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { flag, none, type Tree } from '../../../src/view/tree/tree.js'

interface Entry {
  isDirectory: boolean
  size: number
  modifiedTime: number
  isPlaceholder: boolean
  isSuspect: boolean
}

type Outcome = 'done' | 'absent' | 'full' | 'refused'

export interface Operation {
  readonly name: string
  readonly apply: (tree: Tree) => Outcome
  readonly model: (model: Model) => Outcome
  toString(): string
}

const parentOf = (path: string): string => path.slice(0, path.lastIndexOf('/')) || '/'
const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)
const isBelow = (path: string, directory: string): boolean =>
  path !== '/' && path !== directory && (directory === '/' || path.startsWith(`${directory}/`))

/** The bytes of a name. */
function bytes(text: string): Buffer {
  return Buffer.concat(
    Array.from(text, (character) => {
      const code = character.codePointAt(0)!
      return code >= 0xdc80 && code <= 0xdcff ? Buffer.from([code & 0xff]) : Buffer.from(character, 'utf8')
    }),
  )
}

export class Model {
  entries = new Map<string, Entry>([['/', directory(false)]])

  constructor(readonly entryMax: number) {}

  apply(operation: Operation): Outcome {
    return operation.model(this)
  }

  put(path: string, row: { isDirectory: boolean; size: number; modifiedTime: number }): Outcome {
    if (path === '/' && !row.isDirectory) return 'refused'
    const missing = this.missing(path)
    if (this.entries.size - 1 + missing > this.entryMax) return 'full'
    this.makeParents(path)
    if (!row.isDirectory) this.removeBelow(path)
    const isSuspect = this.entries.get(path)?.isSuspect ?? false
    this.entries.set(path, { ...row, isPlaceholder: false, isSuspect })
    return 'done'
  }

  remove(path: string): Outcome {
    if (path === '/') return 'refused'
    if (!this.entries.has(path)) return 'absent'
    this.removeBelow(path)
    this.entries.delete(path)
    return 'done'
  }

  stats(path: string): { files: number; directories: number; size: number } {
    const below = [...this.entries].filter(([other]) => isBelow(other, path)).map(([, entry]) => entry)
    const files = below.filter((entry) => !entry.isDirectory)
    return {
      files: files.length,
      directories: below.length - files.length,
      size: files.reduce((sum, { size }) => sum + size, 0),
    }
  }

  newest(path: string): number {
    const at = [...this.entries].filter(([other]) => other === path || isBelow(other, path))
    return Math.max(...at.map(([, { modifiedTime }]) => modifiedTime))
  }

  children(path: string): string[] {
    const found = [...this.entries.keys()].filter((other) => other !== '/' && parentOf(other) === path)
    return found.toSorted((one, other) => Buffer.compare(bytes(one), bytes(other)))
  }

  search(pattern: string): string[] {
    const isPath = pattern.includes('/')
    const wanted = isPath && !pattern.startsWith('/') ? `**/${pattern}` : pattern
    const match = /[*?[]/.test(pattern)
      ? (text: string) => asRegExp(wanted).test(text)
      : (text: string) => text.includes(pattern)
    return [...this.entries.keys()].filter((path) => path !== '/' && match(isPath ? path : nameOf(path))).toSorted()
  }

  private missing(path: string): number {
    if (path === '/' || this.entries.has(path)) return 0
    return 1 + this.missing(parentOf(path))
  }

  private makeParents(path: string): void {
    if (path === '/') return
    const parent = parentOf(path)
    this.makeParents(parent)
    const known = this.entries.get(parent)
    if (known === undefined) this.entries.set(parent, directory(true))
    else if (!known.isDirectory) this.entries.set(parent, { ...known, isDirectory: true, size: 0, isPlaceholder: true })
  }

  private removeBelow(path: string): void {
    for (const other of this.entries.keys()) if (isBelow(other, path)) this.entries.delete(other)
  }
}

function directory(isPlaceholder: boolean): Entry {
  return { isDirectory: true, size: 0, modifiedTime: 0, isPlaceholder, isSuspect: false }
}

function asRegExp(glob: string): RegExp {
  const source = glob
    .replaceAll('**/', '\u0001')
    .replaceAll('**', '\u0002')
    .replaceAll('*', '[^/]*')
    .replaceAll('?', '[^/]')
    .replaceAll('\u0001', '(?:.*/)?')
    .replaceAll('\u0002', '.*')
  return new RegExp(`^${source}$`, 'su')
}

function attempt(write: () => void): Outcome {
  try {
    write()
    return 'done'
  } catch (error) {
    if (error instanceof InvalidInput) return 'refused'
    if (error instanceof Terminal && error.code === 'view_full') return 'full'
    throw error
  }
}

// Names that repeat, that sort differently as UTF-16 and as bytes, and that are not UTF-8.
const names = fc.constantFrom('a', 'b', 'ab', 'é', '\u{1f600}', '\uff5e', 'x\udcff', '\udc80', 'index.js', 'A.b')
const paths = fc.array(names, { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join('/')}`)
const anyPath = fc.oneof({ weight: 30, arbitrary: paths }, { weight: 1, arbitrary: fc.constant('/') })
const row = fc.record({
  isDirectory: fc.boolean(),
  size: fc.oneof(fc.nat(5), fc.constant(2 ** 40 + 1)),
  modifiedTime: fc.oneof(fc.nat(5), fc.constant(1_700_000_000.123)),
})

const operation = (name: string, onTree: (tree: Tree) => Outcome, model: (model: Model) => Outcome): Operation => ({
  name,
  apply: onTree,
  model,
  toString: () => name,
})

const put = fc.tuple(anyPath, row).map(([path, row]) =>
  operation(
    `put ${path} ${JSON.stringify(row)}`,
    (tree) => attempt(() => tree.put(path, row)),
    (model) => model.put(path, row),
  ),
)
const remove = anyPath.map((path) =>
  operation(
    `remove ${path}`,
    (tree) => (tree.find(path) === none ? 'absent' : attempt(() => tree.remove(tree.find(path)))),
    (model) => model.remove(path),
  ),
)
const suspect = fc.tuple(anyPath, fc.boolean()).map(([path, isSuspect]) =>
  operation(
    `suspect ${path} ${isSuspect}`,
    (tree) => {
      const node = tree.find(path)
      if (node === none) return 'absent'
      tree.setFlags(node, isSuspect ? flag.integritySuspect : 0, isSuspect ? 0 : flag.integritySuspect)
      return 'done'
    },
    (model) => {
      const entry = model.entries.get(path)
      if (!entry) return 'absent'
      entry.isSuspect = isSuspect
      return 'done'
    },
  ),
)
const clear = fc.constant(
  operation(
    'clear',
    (tree) => attempt(() => tree.clear()),
    (model) => {
      model.entries = new Map([['/', directory(false)]])
      return 'done'
    },
  ),
)

export const operations = fc.array(
  fc.oneof(
    { weight: 30, arbitrary: put },
    { weight: 10, arbitrary: remove },
    { weight: 5, arbitrary: suspect },
    { weight: 1, arbitrary: clear },
  ),
  { maxLength: 120, size: 'max' },
)
