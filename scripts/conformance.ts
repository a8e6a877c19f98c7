/**
 * npm run conformance [-- --json] [-- --strict]: shows which test of the last `npm test` proves which requirement.
 * Requirement IDs come from docs/spec, proofs from test titles (`[W2.2a]`). A requirement is `failed` if a test that names
 * it failed or a test file that names it did not load, `missing` if none of its tests ran or one of its test files was left
 * out of the run, and `passed` otherwise. A skipped test proves nothing.
 * Exits 0; 1 if a requirement failed (with --strict also if one is missing); 2 if there is nothing to read.
 */
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

type Status = 'passed' | 'failed' | 'missing'

interface Proof {
  readonly status: Status
  readonly tests: readonly string[]
}

interface Matrix {
  readonly ids: Readonly<Record<string, Proof>>
}

interface TestResult {
  readonly fullName: string
  readonly status: string
}

/** One test file in vitest's JSON. */
interface FileResult {
  readonly name: string
  readonly status: string
  readonly assertionResults: readonly TestResult[]
}

interface TestFile {
  readonly path: string
  readonly text: string
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

/**
 * The results of all tests, with one failed entry per test file that did not load and one `absent` entry per tagged file
 * that is not in the run: both stand for every ID in the file's text. In a failed file, a test that did not pass has failed,
 * because a failed hook makes vitest report the tests behind it as skipped.
 */
export function allResults(files: readonly FileResult[], testFiles: readonly TestFile[]): TestResult[] {
  const standIn = ({ path, text }: TestFile, status: string): TestResult[] => {
    const ids = [...new Set(idsInTitle(text))]
    return ids.length === 0 ? [] : [{ fullName: `${path} [${ids.join(', ')}]`, status }]
  }
  const ran = new Map(files.map((file) => [file.name, file]))
  const results = files.flatMap(({ status, assertionResults }) =>
    status === 'failed'
      ? assertionResults.map((test) => (test.status === 'passed' ? test : { ...test, status: 'failed' }))
      : assertionResults,
  )
  for (const file of testFiles) {
    const result = ran.get(file.path)
    if (result === undefined) results.push(...standIn(file, 'absent'))
    else if (result.assertionResults.length === 0) results.push(...standIn(file, 'failed'))
  }
  return results
}

export function conformance(ids: readonly string[], results: readonly TestResult[]): Matrix {
  const prove = (wanted: string): Proof => {
    const tests = results.filter((test) => idsInTitle(test.fullName).includes(wanted))
    const some = (status: string) => tests.some((test) => test.status === status)
    const status = some('failed') ? 'failed' : some('passed') && !some('absent') ? 'passed' : 'missing'
    return { status, tests: tests.map((test) => test.fullName) }
  }
  return { ids: Object.fromEntries(ids.map((wanted) => [wanted, prove(wanted)])) }
}

/** One row per requirement with the given statuses, the missing ones in one line, and the sums. */
export function table({ ids }: Matrix, shown: readonly Status[] = ['passed', 'failed']): string {
  const rows = Object.entries(ids)
  const width = Math.max(2, ...rows.map(([name]) => name.length))
  const lines = rows
    .filter(([, proof]) => shown.includes(proof.status))
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
  return lines.join('\n').trimStart()
}

function readSpec(folder: string): string[] {
  if (!existsSync(folder)) return []
  const pages = readdirSync(folder).filter((name) => name.endsWith('.md'))
  return [...new Set(pages.toSorted().flatMap((name) => idsInSpec(readFileSync(join(folder, name), 'utf8'))))]
}

function readTestFiles(home: string, folder = home): TestFile[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory())
      return /^(?:node_modules|dist|peers|\..*)$/.test(entry.name) ? [] : readTestFiles(home, path)
    return /\.test\.tsx?$/.test(entry.name) ? [{ path: relative(home, path), text: readFileSync(path, 'utf8') }] : []
  })
}

export function main(
  flags: readonly string[],
  folder: string,
  { log, error }: Pick<Console, 'log' | 'error'> = console,
): number {
  // vitest reports real paths.
  const home = realpathSync(folder)
  const fail = (message: string) => {
    error(`conformance: ${message}`)
    return 2
  }
  const unknownFlag = flags.find((flag) => flag !== '--json' && flag !== '--strict')
  if (unknownFlag !== undefined) return fail(`unknown option "${unknownFlag}". Use --json or --strict.`)
  const ids = readSpec(join(home, 'docs/spec'))
  if (ids.length === 0) return fail('docs/spec/*.md defines no requirement IDs')
  const resultsPath = join(home, '.test-results/vitest.json')
  if (!existsSync(resultsPath)) return fail('there are no test results. Run npm test first.')

  const { testResults } = JSON.parse(readFileSync(resultsPath, 'utf8')) as { testResults: readonly FileResult[] }
  const files = testResults.map((file) => ({ ...file, name: relative(home, file.name) }))
  const results = allResults(files, readTestFiles(home))
  const matrix = conformance(ids, results)
  const strict = flags.includes('--strict')
  log(flags.includes('--json') ? JSON.stringify(matrix) : table(matrix, strict ? ['failed'] : undefined))

  const known = new Set(ids)
  const unknown = new Set(results.flatMap((test) => idsInTitle(test.fullName)).filter((named) => !known.has(named)))
  if (unknown.size > 0) error(`test titles name IDs that docs/spec does not define: ${[...unknown].join(' ')}`)
  const refused: Status[] = strict ? ['failed', 'missing'] : ['failed']
  return Object.values(matrix.ids).some((proof) => refused.includes(proof.status)) ? 1 : 0
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exitCode = main(process.argv.slice(2), dirname(dirname(fileURLToPath(import.meta.url))))
