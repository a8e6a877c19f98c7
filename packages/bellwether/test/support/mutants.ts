/**
 * Applies mutations of the product to a copy of the sources and runs the tests that must detect them. It removes the copy afterwards
 * and never changes the sources. bench/mutants.ts runs all mutations; the tests `mutations` of view and board run one per day each.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { thorough, today } from './thorough.js'

/** Removes one guard. */
export interface Mutation {
  readonly name: string
  /** Relative to src. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** One of these must fail. */
  readonly tests: readonly string[]
}

/** One mutation, another each day; in `npm run thorough` all of them. */
export function sampleOf(mutations: readonly Mutation[]): readonly Mutation[] {
  return mutations.filter((_, index) => thorough || index === today % mutations.length)
}

export const sourceOf = (file: string) => new URL(`../../src/${file}`, import.meta.url)

const packageFolder = fileURLToPath(new URL('../..', import.meta.url))
// Inside the package, so that the copy resolves the same dependencies.
const folder = `${packageFolder}.mutants/tests-${process.pid}`
const oneMaxMs = 180_000

const config = `
const conditions = ['@bellwether/source', 'node', 'development|production']
export default { resolve: { conditions }, ssr: { resolve: { conditions } }, test: { include: ['{src,test}/**/*.test.ts'], testTimeout: 30_000 } }
`

interface Report {
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly title: string }[]
  }[]
}

/** The titles of the tests that fail. */
function failedBy({ file, from, to, tests }: Mutation): readonly string[] {
  const at = `${folder}/src/${file}`
  const whole = readFileSync(at, 'utf8')
  writeFileSync(at, whole.replace(from, to))
  try {
    const vitest = fileURLToPath(new URL('vitest.mjs', import.meta.resolve('vitest/package.json')))
    const words = [
      vitest,
      'run',
      '--root',
      folder,
      '--config',
      `${folder}/mutants.config.ts`,
      '--reporter=json',
      ...tests,
    ]
    const done = spawnSync(process.execPath, words, {
      cwd: folder,
      env: ownEnvironment(),
      timeout: oneMaxMs,
      maxBuffer: 64 << 20,
    })
    const text = done.stdout.toString()
    if (!text.includes('{')) throw new Error(`Vitest did not run: ${done.stderr.toString().slice(-2_000)}`)
    const report = JSON.parse(text.slice(text.indexOf('{'))) as Report
    // If no test passes, nothing may have run, and the result proves nothing.
    if (report.numPassedTests === 0) throw new Error(`No test passed: ${text.slice(0, 2_000)}`)
    return report.testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .filter(({ status }) => status === 'failed')
      .map(({ title }) => title)
  } finally {
    writeFileSync(at, whole)
  }
}

/** A Vitest process that a test starts must not take itself for a worker of that test. */
function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:VITEST|TEST$|NODE_ENV$)/.test(name)))
}

/** Calls `onResult` for each mutation, with the titles of the tests that failed. */
export function runMutations(
  mutations: readonly Mutation[],
  onResult: (mutation: Mutation, failed: readonly string[]) => void,
): void {
  mkdirSync(folder, { recursive: true })
  try {
    for (const part of ['src', 'test/board', 'test/view', 'test/ports', 'test/cli', 'test/support', 'package.json'])
      cpSync(`${packageFolder}${part}`, `${folder}/${part}`, { recursive: true })
    writeFileSync(`${folder}/mutants.config.ts`, config)
    for (const mutation of mutations) onResult(mutation, failedBy(mutation))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
