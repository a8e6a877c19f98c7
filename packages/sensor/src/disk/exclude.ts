/**
 * Excludes paths from a view by globs: `node_modules` or `*.tmp` is a name at any depth, `/build` or `a/b` a path from the root,
 * `**` any number of directories. An excluded path and everything below it appear as missing; the root is never excluded. All
 * sensors of a source must use the same globs; the operator ensures that.
 */
import { InvalidInput } from '@bellwether/protocol'
import { childOf, nameOf, type Disk } from './disk.js'

// Each glob is tested against every entry.
const globsMax = 200
const globMax = 1_000
// An expression tries the combinations of its wildcards: more of them would take minutes for one long name that an agent chooses.
const starsMax = 3
const deepMax = 2

/** Whether this entry matches; its parent directories are not tested. */
type Matches = (path: string, name: string) => boolean

export function parseExclude(globs: readonly string[]): Matches | undefined {
  const wanted = globs.map((glob) => glob.trim()).filter((glob) => glob !== '')
  if (wanted.length === 0) return undefined
  if (wanted.length > globsMax) throw invalidExclude(`there are more than ${globsMax} globs`)
  const names = new Set<string>()
  const nameGlobs: RegExp[] = []
  const pathGlobs: RegExp[] = []
  for (const text of wanted) {
    const glob = text.replace(/\/+$/, '')
    if (glob === '' || text.startsWith('!') || text.length > globMax || /(?:^|\/)\.{1,2}(?:\/|$)/.test(glob))
      throw invalidExclude(`${JSON.stringify(text.slice(0, 80))} is not a valid glob`)
    if (isCostly(glob))
      throw invalidExclude(
        `${JSON.stringify(text.slice(0, 80))} has more than ${starsMax} * in one name or more than ${deepMax} ** before its end`,
      )
    if (glob.includes('/')) pathGlobs.push(new RegExp(`^/${regexOf(glob.replace(/^\/+/, ''))}$`, 'su'))
    else if (/[*?]/.test(glob)) nameGlobs.push(new RegExp(`^${regexOf(glob)}$`, 'su'))
    else names.add(glob)
  }
  return (path, name) =>
    names.has(name) || nameGlobs.some((glob) => glob.test(name)) || pathGlobs.some((glob) => glob.test(path))
}

/** Tests an entry and its parent directories. */
export function isExcludedBy(matches: Matches, path: string): boolean {
  for (let end = path.indexOf('/', 1); ; end = path.indexOf('/', end + 1)) {
    const part = end < 0 ? path : path.slice(0, end)
    if (part !== '/' && matches(part, nameOf(part))) return true
    if (end < 0) return false
  }
}

/** The same disk without the excluded paths. */
export function withoutExcluded(disk: Disk, matches: Matches): Disk {
  const isExcluded = (path: string) => isExcludedBy(matches, path)
  return {
    kind: disk.kind,
    isExcluded,
    identity: (path) => disk.identity(path),
    stat: (path) => (isExcluded(path) ? 'gone' : disk.stat(path)),
    list(path, each) {
      if (isExcluded(path)) return 'gone'
      return disk.list(path, (found) => {
        if (!matches(childOf(path, found.name), found.name)) each(found)
      })
    },
  }
}

/** `**` at the end matches the rest and tries nothing. */
function isCostly(glob: string): boolean {
  const stars = (part: string) => (part.match(/\*+/g) ?? []).length
  const deep = glob.replace(/\*+$/, '').match(/\*{2,}/g) ?? []
  return deep.length > deepMax || glob.split('/').some((part) => stars(part) > starsMax)
}

const special = /[\\^$.+()|{}[\]]/g

function regexOf(glob: string): string {
  return glob.replaceAll(special, String.raw`\$&`).replaceAll(/\*\*\/|\*{2,}|\*|\?/g, (wild) => {
    if (wild === '**/') return '(?:[^/]+/)*'
    if (wild === '?') return '[^/]'
    return wild === '*' ? '[^/]*' : '.*'
  })
}

function invalidExclude(problem: string): InvalidInput {
  return new InvalidInput(`Cannot exclude these globs: ${problem}`, {
    code: 'invalid_exclude',
    hint: 'Use names (node_modules) or paths from the root (/build), with *, ? and **, without ! and ..',
  })
}
