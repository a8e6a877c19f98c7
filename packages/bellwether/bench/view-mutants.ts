/**
 * Proves that the view's tests detect missing guards: applies each mutation of test/view/mutations.ts to a copy of the sources;
 * one of the tests that it names must then fail. Takes one to two minutes. Prints one line per mutation and exits with 1 if
 * no test detects one. It removes the copy afterwards and never changes the sources.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { viewMutations, type ViewMutation } from '../test/view/mutations.js'

const packageFolder = fileURLToPath(new URL('..', import.meta.url))
// Inside the package, so that the copy resolves the same dependencies.
const folder = `${packageFolder}.mutants/view-${process.pid}`
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

function failedBy({ file, from, to, tests }: ViewMutation): readonly string[] {
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
    const done = spawnSync(process.execPath, words, { cwd: folder, timeout: oneMaxMs, maxBuffer: 64 << 20 })
    const text = done.stdout.toString()
    if (!text.includes('{')) throw new Error(`Vitest did not run: ${done.stderr.toString().slice(-2_000)}`)
    const report = JSON.parse(text.slice(text.indexOf('{'))) as Report
    // If no test passes, nothing ran, and the result proves nothing.
    if (report.numPassedTests === 0) throw new Error(`No test passed: ${text.slice(0, 2_000)}`)
    return report.testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .filter(({ status }) => status === 'failed')
      .map(({ title }) => title)
  } finally {
    writeFileSync(at, whole)
  }
}

mkdirSync(folder, { recursive: true })
try {
  for (const part of ['src', 'test/view', 'test/support', 'package.json'])
    cpSync(`${packageFolder}${part}`, `${folder}/${part}`, { recursive: true })
  writeFileSync(`${folder}/mutants.config.ts`, config)
  let missed = 0
  for (const mutation of viewMutations) {
    const failed = failedBy(mutation)
    if (failed.length === 0) missed += 1
    process.stdout.write(`${failed.length === 0 ? 'NOT DETECTED' : `detected by ${failed.length}`}: ${mutation.name}\n`)
    for (const title of failed.slice(0, 4)) process.stdout.write(`    ${title}\n`)
  }
  process.exitCode = missed === 0 ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
