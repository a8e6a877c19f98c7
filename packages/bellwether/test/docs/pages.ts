/** Finds the shell blocks, links and `bellwether` commands of the documentation. Pure except for reading the files. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const repository = fileURLToPath(new URL('../../../..', import.meta.url))

/** Every committed Markdown page, as a path from the root of the repository. */
export function pages(): string[] {
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.md'], {
    cwd: repository,
    encoding: 'utf8',
  })
  return files.split('\n').filter((path) => path !== '')
}

export interface Block {
  readonly page: string
  readonly line: number
  /** The language of the fence: `sh`, `json`, or empty. */
  readonly language: string
  /** What follows the language: how a test runs the block. */
  readonly mode: string
  readonly text: string
}

/** The fenced blocks of a page, also those indented in a list. */
export function blocksOf(page: string): Block[] {
  const lines = readFileSync(join(repository, page), 'utf8').split('\n')
  const blocks: Block[] = []
  for (let at = 0; at < lines.length; at += 1) {
    const [, indent, language, mode] = /^(\s*)```(\w*)(.*)$/.exec(lines[at]!) ?? []
    if (indent === undefined) continue
    const end = lines.findIndex((line, index) => index > at && line.trim() === '```')
    const text = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent.length, line.search(/\S|$/))))
    blocks.push({ page, line: at + 1, language: language!, mode: mode!.trim(), text: `${text.join('\n')}\n` })
    at = end
  }
  return blocks
}

export interface Link {
  readonly page: string
  readonly line: number
  /** The linked file, as a path from the root of the repository. */
  readonly path: string
  /** The heading after `#`, or empty. */
  readonly anchor: string
}

/** The links of a page to files of the repository. */
export function linksOf(page: string): Link[] {
  return proseOf(page).flatMap(({ line, text }) =>
    [...text.matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].map(([, path = '', anchor = '']) => ({
      page,
      line,
      path: path === '' ? page : posix.join(posix.dirname(page), path),
      anchor,
    })),
  )
}

/** The anchors of a page's headings, as GitHub derives them. */
export function anchorsOf(page: string): string[] {
  return proseOf(page).flatMap(({ text }) => {
    const [, heading] = /^#+ (.+)$/.exec(text) ?? []
    if (heading === undefined) return []
    return [
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ]
  })
}

/** The lines of a page outside its fenced blocks. */
function proseOf(page: string): { readonly line: number; readonly text: string }[] {
  let isFenced = false
  return readFileSync(join(repository, page), 'utf8')
    .split('\n')
    .flatMap((text, index) => {
      const isFence = /^\s*```/.test(text)
      if (isFence) isFenced = !isFenced
      return isFence || isFenced ? [] : [{ line: index + 1, text }]
    })
}

/** The `bellwether` commands in a block, each as its words. Synopses (`[--view NAME]`, `…`) lose their brackets. */
export function commandsIn(block: Block): string[][] {
  return block.text.split('\n').flatMap((line) => {
    const [, rest] = /^\s*(?:\$ |[A-Z_]+=\S+ )?(?:npx )?bellwether (.+)$/.exec(line) ?? []
    if (rest === undefined) return []
    const words = rest.replace(/\s+#.*$/, '').match(/"(?:\\.|[^"\\])*"|'[^']*'|\S+/g) ?? []
    return [words.map((word) => word.replace(/^\[+|\]+$/g, '')).filter((word) => word !== '…' && word !== '|')]
  })
}
