/**
 * Checks the import arrows of .dependency-cruiser.cjs. The cruiser calls an empty or half-read tree a success, so this
 * also compares what it looked at with the files on disk: a file that was not read is a failure.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Cruise {
  readonly modules: readonly { readonly source: string }[]
  readonly summary: { readonly violations: readonly Violation[] }
}

interface Violation {
  readonly from: string
  readonly to: string
  readonly rule: { readonly name: string }
  readonly comment?: string
  readonly cycle?: readonly { readonly name: string }[]
}

const home = dirname(dirname(fileURLToPath(import.meta.url)))
const places = ['packages', 'scripts']
// Not ours: installed, built, or the run-time folders of other programs.
const leftOut = /\/(?:node_modules|dist|bench\/peers|\.[^/]*)$/
// A cruise of a thousand modules prints about 2 MB.
const outputMaxBytes = 256 * 1024 * 1024

function* typescriptFiles(root: string, folder: string): Iterable<string> {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`
    if (entry.isDirectory() && !leftOut.test(path)) yield* typescriptFiles(root, path)
    // The cruiser cannot read JSX: packages/dashboard/src/imports.test.ts checks it.
    else if (entry.isFile() && /\.tsx?$/.test(entry.name) && !/^packages\/dashboard\/.*\.tsx$/.test(path)) yield path
  }
}

/** One line for each broken arrow and each file that was not looked at; empty when all is well. */
export function findBrokenArrows(root: string): { readonly modules: number; readonly problems: string[] } {
  const cruiser = join(home, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs')
  const config = join(home, '.dependency-cruiser.cjs')
  const output = execFileSync(process.execPath, [cruiser, '--config', config, '--output-type', 'json', ...places], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: outputMaxBytes,
  })
  const cruise = JSON.parse(output) as Cruise
  const seen = new Set(cruise.modules.map((module) => module.source))
  const onDisk = places.flatMap((place) => [...typescriptFiles(root, place)])
  const problems = cruise.summary.violations.map(describe)
  for (const path of onDisk) if (!seen.has(path)) problems.push(`not-looked-at: ${path}`)
  if (onDisk.length === 0) problems.push(`not-looked-at: no TypeScript file under ${places.join(', ')}`)
  return { modules: onDisk.length, problems }
}

function describe(violation: Violation): string {
  const path = violation.cycle ? violation.cycle.map((step) => step.name).join(' → ') : violation.to
  return `${violation.rule.name}: ${violation.from} → ${path}${violation.comment ? `\n    ${violation.comment}` : ''}`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { modules, problems } = findBrokenArrows(home)
  for (const problem of problems) console.error(problem)
  console.log(`${modules} modules, ${problems.length} broken arrows`)
  process.exitCode = problems.length > 0 ? 1 : 0
}
