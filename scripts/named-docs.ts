/** The documentation pages that the texts of the product name: errors, hints, files of `init`, help. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Path of the page → files that name it. Comments count too: a stale path there misleads as well. */
export function namedDocs(folder: string, ext: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  // Examples of commands name files of a user's project.
  const others = [`.test${ext}`, `cli/examples${ext}`]
  for (const file of files.filter((name) => name.endsWith(ext) && !others.some((end) => name.endsWith(end)))) {
    const text = readFileSync(join(folder, file), 'utf8')
    for (const [page] of text.matchAll(/\bdocs\/[\w/-]+\.md(?:#[\w-]+)?/g))
      found.set(page, [...(found.get(page) ?? []), file])
  }
  return found
}

/** The pages that do not exist below `root`, or have no heading with the anchor. */
export function missingDocs(pages: ReadonlyMap<string, readonly string[]>, root: string): string[] {
  return [...pages].flatMap(([page, files]) => {
    const [path = '', anchor] = page.split('#')
    const text = read(join(root, path))
    if (text !== undefined && (anchor === undefined || headings(text).includes(anchor))) return []
    return [`${page}, named by ${files.join(', ')}`]
  })
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** As GitHub makes anchors. */
const headings = (text: string) =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
