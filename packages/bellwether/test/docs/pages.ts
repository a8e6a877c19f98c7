/** Finds the shell blocks and the `bellwether` commands of the documentation. Pure except for reading the files. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
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

/** The `bellwether` commands in a block, each as its words. Synopses (`[--view NAME]`, `…`) lose their brackets. */
export function commandsIn(block: Block): string[][] {
  return block.text.split('\n').flatMap((line) => {
    const [, rest] = /^\s*(?:\$ |[A-Z_]+=\S+ )?(?:npx )?bellwether (.+)$/.exec(line) ?? []
    if (rest === undefined) return []
    const words = rest.replace(/\s+#.*$/, '').match(/"(?:\\.|[^"\\])*"|'[^']*'|\S+/g) ?? []
    return [words.map((word) => word.replace(/^\[+|\]+$/g, '')).filter((word) => word !== '…' && word !== '|')]
  })
}
