/**
 * What of a disk is none of the view's business, by globs: `node_modules` or `*.tmp` is a name at any depth, `/build` or `a/b` a
 * path from the root, `**` any number of directories. Always: what is excluded looks as if it were not there, and everything below
 * it too; the root itself is never excluded. Sensors of one view must agree on it, which is left to whoever starts them.
 */
import { InvalidInput } from '@bellwether/protocol'
import { childOf, nameOf, type Disk } from './disk.js'

// Each costs a look at every entry; nobody writes more by hand.
const globsMax = 200
const globMax = 1_000

/** Whether this very entry matches; what lies above it is not asked. */
type Matches = (path: string, name: string) => boolean

export function parseExclude(globs: readonly string[]): Matches | undefined {
  const wanted = globs.map((glob) => glob.trim()).filter((glob) => glob !== '')
  if (wanted.length === 0) return undefined
  if (wanted.length > globsMax) throw refused(`there are more than ${globsMax} of them`)
  const names = new Set<string>()
  const nameGlobs: RegExp[] = []
  const pathGlobs: RegExp[] = []
  for (const given of wanted) {
    const glob = given.replace(/\/+$/, '')
    if (glob === '' || given.startsWith('!') || given.length > globMax || /(?:^|\/)\.{1,2}(?:\/|$)/.test(glob))
      throw refused(`${JSON.stringify(given.slice(0, 80))} is none`)
    if (glob.includes('/')) pathGlobs.push(new RegExp(`^/${regexOf(glob.replace(/^\/+/, ''))}$`, 'su'))
    else if (/[*?]/.test(glob)) nameGlobs.push(new RegExp(`^${regexOf(glob)}$`, 'su'))
    else names.add(glob)
  }
  return (path, name) =>
    names.has(name) || nameGlobs.some((glob) => glob.test(name)) || pathGlobs.some((glob) => glob.test(path))
}

/** The same disk without what is excluded. */
export function withoutExcluded(disk: Disk, matches: Matches): Disk {
  /** The entry, or a directory that it lies in. */
  function hides(path: string): boolean {
    for (let end = path.indexOf('/', 1); ; end = path.indexOf('/', end + 1)) {
      const part = end < 0 ? path : path.slice(0, end)
      if (part !== '/' && matches(part, nameOf(part))) return true
      if (end < 0) return false
    }
  }
  return {
    kind: disk.kind,
    hides,
    identity: (path) => disk.identity(path),
    look: (path) => (hides(path) ? 'gone' : disk.look(path)),
    list(path, each) {
      if (hides(path)) return 'gone'
      return disk.list(path, (found) => {
        if (!matches(childOf(path, found.name), found.name)) each(found)
      })
    },
  }
}

const special = /[\\^$.+()|{}[\]]/g

function regexOf(glob: string): string {
  return glob.replaceAll(special, String.raw`\$&`).replaceAll(/\*\*\/|\*{2,}|\*|\?/g, (wild) => {
    if (wild === '**/') return '(?:[^/]+/)*'
    if (wild === '?') return '[^/]'
    return wild === '*' ? '[^/]*' : '.*'
  })
}

function refused(why: string): InvalidInput {
  return new InvalidInput(`these globs cannot be excluded: ${why}`, {
    code: 'invalid_exclude',
    hint: 'names (node_modules), paths from the root (/build), with *, ? and **; no ! and no ..',
  })
}
