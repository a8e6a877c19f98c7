/**
 * npm run conformance [-- --json] [-- --strict]: which requirement is proven by which test of the last `npm test`.
 * IDs come from docs/spec, proofs from test titles (`[W2.2a]`). A requirement is `passed` when every test that names
 * it passed, `failed` when one did not, `missing` when none ran: a skipped test proves nothing.
 * Exit 0, or 1 when a requirement failed (with --strict also when one is missing), or 2 when there is nothing to read.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Status = 'passed' | 'failed' | 'missing'
export interface Proof {
  readonly status: Status
  readonly tests: readonly string[]
}
export interface Matrix {
  readonly ids: Readonly<Record<string, Proof>>
}

export interface TestResult {
  readonly fullName: string
  readonly status: string
}

const id = String.raw`[A-Z]\d+(?:\.\d+)+[a-z]?`
// The first cell of a table row, a list item or a heading; bold or code marks and a "+" for our additions may surround it.
const specLine = new RegExp(String.raw`^\s*(?:\||[-*] |#+ )\s*[*${'`'}]*(${id})(?![\w.])`)
const bracketed = new RegExp(String.raw`\[\s*(${id}(?:\s*,\s*${id})*)\s*\]`, 'g')

/** The IDs that a page of the specification defines, in its order. IDs inside sentences and code blocks define nothing. */
export function idsInSpec(markdown: string): string[] {
  const found = new Set<string>()
  let fenced = false
  for (const line of markdown.split('\n')) {
    if (line.trimStart().startsWith('```')) fenced = !fenced
    const match = fenced ? null : specLine.exec(line)
    if (match?.[1] !== undefined) found.add(match[1])
  }
  return [...found]
}

/** `[T1.1] …`, `[T1.1, T1.2] …` and `[T1.1][T1.2] …` all count. */
export function idsInTitle(title: string): string[] {
  return [...title.matchAll(bracketed)].flatMap((match) => match[1]!.split(',').map((text) => text.trim()))
}

export function conformance(ids: readonly string[], results: readonly TestResult[]): Matrix {
  const prove = (wanted: string): Proof => {
    const tests = results.filter((test) => idsInTitle(test.fullName).includes(wanted))
    const ran = tests.filter((test) => test.status === 'passed' || test.status === 'failed')
    const status = ran.length === 0 ? 'missing' : ran.every((test) => test.status === 'passed') ? 'passed' : 'failed'
    return { status, tests: tests.map((test) => test.fullName) }
  }
  return { ids: Object.fromEntries(ids.map((wanted) => [wanted, prove(wanted)])) }
}

export function table({ ids }: Matrix): string {
  const rows = Object.entries(ids)
  const width = Math.max(2, ...rows.map(([name]) => name.length))
  const lines = rows
    .filter(([, proof]) => proof.status !== 'missing')
    .map(
      ([name, { status, tests }]) =>
        `${name.padEnd(width)}  ${status.padEnd(6)}  ${tests.join('\n'.padEnd(width + 11))}`,
    )
  const count = (status: Status) => rows.filter(([, proof]) => proof.status === status).length
  const missing = rows.filter(([, proof]) => proof.status === 'missing').map(([name]) => name)
  if (missing.length > 0) lines.push('', `missing: ${missing.join(' ')}`)
  lines.push(
    '',
    `${rows.length} requirements: ${count('passed')} passed, ${count('failed')} failed, ${missing.length} missing`,
  )
  return lines.join('\n')
}

function readSpec(folder: string): string[] {
  if (!existsSync(folder)) return []
  const pages = readdirSync(folder).filter((name) => name.endsWith('.md'))
  return [...new Set(pages.toSorted().flatMap((name) => idsInSpec(readFileSync(join(folder, name), 'utf8'))))]
}

interface Results {
  readonly testResults: readonly { readonly assertionResults: readonly TestResult[] }[]
}

function main(flags: readonly string[]): number {
  const home = dirname(dirname(fileURLToPath(import.meta.url)))
  const resultsPath = join(home, '.test-results/vitest.json')
  const unknownFlag = flags.find((flag) => flag !== '--json' && flag !== '--strict')
  if (unknownFlag !== undefined) return complain(`unknown option ${unknownFlag}: --json and --strict are known`)
  const ids = readSpec(join(home, 'docs/spec'))
  if (ids.length === 0) return complain('no requirement IDs in docs/spec/*.md')
  if (!existsSync(resultsPath)) return complain('no results of a test run: run npm test first')

  const { testResults } = JSON.parse(readFileSync(resultsPath, 'utf8')) as Results
  const results = testResults.flatMap((file) => file.assertionResults)
  const matrix = conformance(ids, results)
  console.log(flags.includes('--json') ? JSON.stringify(matrix) : table(matrix))

  const known = new Set(ids)
  const strangers = new Set(results.flatMap((test) => idsInTitle(test.fullName)).filter((named) => !known.has(named)))
  if (strangers.size > 0) console.error(`named in test titles but not in docs/spec: ${[...strangers].join(' ')}`)
  const refused: Status[] = flags.includes('--strict') ? ['failed', 'missing'] : ['failed']
  return Object.values(matrix.ids).some((proof) => refused.includes(proof.status)) ? 1 : 0
}

function complain(message: string): number {
  console.error(`conformance: ${message}`)
  return 2
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2))
