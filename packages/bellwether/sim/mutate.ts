/**
 * `npm run mutations [-- NAME…] [--json]`: proves that the simulation finds faults. Each patch in mutations/ removes one guard from a copy of
 * the sources; the story that the patch names must then break the invariant that it names. A patch that does not apply, or breaks
 * nothing, is a failure.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify, parseArgs } from 'node:util'
import { ownCluster } from './cluster.js'

const run = promisify(execFile)
const packageFolder = fileURLToPath(new URL('..', import.meta.url))
const patchFolder = fileURLToPath(new URL('mutations/', import.meta.url))
// One folder per process: two runs at the same time must not delete each other's copies.
const mutantName = `.mutants/${process.pid}`
const mutantFolder = `${packageFolder}${mutantName}`
// One mutant needs a few dozen seeds at most; if it needs more, its story does not fit.
const timeoutMs = 300_000

interface Mutation {
  readonly name: string
  readonly story: string
  readonly seeds: string
  readonly breaks: string
}

export interface MutationResult extends Mutation {
  readonly found: boolean
  readonly seed?: number
  readonly detail: string
}

async function readMutation(name: string): Promise<Mutation> {
  const text = await readFile(`${patchFolder}${name}.patch`, 'utf8')
  const field = (key: string): string => {
    const value = new RegExp(`^${key}: (.+)$`, 'm').exec(text)?.[1]
    if (value === undefined) throw new Error(`mutations/${name}.patch has no line "${key}: …"`)
    return value
  }
  return { name, story: field('story'), seeds: field('seeds'), breaks: field('breaks') }
}

const apply = (name: string, folder: string, ...flags: readonly string[]) =>
  run('git', ['apply', ...flags, `--directory=packages/bellwether/${folder}`, `${patchFolder}${name}.patch`], {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
  })

/** Throws if the patch does not apply to the sources. */
export async function checkMutation(name: string): Promise<void> {
  await apply(name, '', '--check')
}

async function runMutation(mutation: Mutation, url: string): Promise<MutationResult> {
  const { name, story, seeds, breaks } = mutation
  const folder = `${mutantFolder}/${name}`
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  // Inside the package, so that the copies resolve the same dependencies.
  for (const part of ['src', 'sim', 'package.json'])
    await cp(`${packageFolder}${part}`, `${folder}/${part}`, { recursive: true })
  await apply(name, `${mutantName}/${name}`)
  const script =
    story === '-' ? ['sim/hot-updates.ts'] : ['sim/main.ts', '--story', story, '--seeds', seeds, '--stop', '--json']
  const args = ['--import', 'tsx', '--conditions=@bellwether/source', ...script, '--url', url]
  const { stdout } = await run(process.execPath, args, {
    cwd: folder,
    timeout: timeoutMs,
    maxBuffer: 64 * 1024 * 1024,
  }).catch(
    // A simulation with findings exits with 1.
    (error: Error & { stdout?: string; stderr?: string }) => {
      if (error.stdout?.startsWith('{')) return { stdout: error.stdout }
      throw new Error(`Mutation ${name} did not run: ${error.stderr ?? error.message}`)
    },
  )
  await rm(folder, { recursive: true, force: true })
  const { found } = JSON.parse(stdout) as { found: { seed?: number; breaks: string; finding: string }[] }
  const hit = found.find((one) => one.breaks === breaks)
  const detail = hit?.finding ?? found[0]?.finding ?? 'nothing was found'
  return { ...mutation, found: hit !== undefined, detail, ...(hit?.seed === undefined ? {} : { seed: hit.seed }) }
}

export async function runMutations(
  names: readonly string[],
  onResult: (result: MutationResult) => void,
): Promise<MutationResult[]> {
  const all = (await readdir(patchFolder))
    .filter((file) => file.endsWith('.patch'))
    .map((file) => file.replace(/\.patch$/, ''))
  const chosen = names.length === 0 ? all.sort() : names
  const cluster = await ownCluster()
  const results: MutationResult[] = []
  try {
    for (const name of chosen) {
      const one = await runMutation(await readMutation(name), await cluster.database())
      results.push(one)
      onResult(one)
    }
  } finally {
    await cluster.remove()
    await rm(mutantFolder, { recursive: true, force: true })
  }
  return results
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false } },
  })
  const results = await runMutations(positionals, (one) => {
    const where = one.seed === undefined ? '' : ` (seed ${one.seed})`
    process.stderr.write(`${one.found ? 'found ' : 'MISSED'} ${one.name}${where}: ${one.detail.slice(0, 200)}\n`)
  })
  const missed = results.filter((one) => !one.found)
  if (values.json)
    process.stdout.write(
      `${JSON.stringify({ mutations: results.length, missed: missed.map(({ name }) => name), results })}\n`,
    )
  else process.stdout.write(`${results.length - missed.length} of ${results.length} mutations found\n`)
  process.exitCode = missed.length === 0 ? 0 : 1
}
