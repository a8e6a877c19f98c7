/**
 * `npm run mutations [-- NAME…] [--json]`: the proof that the simulation can see. Each patch in mutations/ takes one guard out
 * of a copy of the sources; the story that it names must then break the invariant that it names. A patch that no longer
 * applies, or breaks nothing, is a failure.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify, parseArgs } from 'node:util'
import { ownCluster } from './cluster.js'

const run = promisify(execFile)
const packageFolder = fileURLToPath(new URL('..', import.meta.url))
const patchFolder = fileURLToPath(new URL('mutations/', import.meta.url))
// A folder for each process: two runs at once must not clear away each other's copies.
const mutantName = `.mutants/${process.pid}`
const mutantFolder = `${packageFolder}${mutantName}`
// One mutant is a few dozen seeds at most; more means that the story is wrong for it.
const timeoutMs = 300_000

interface Mutation {
  readonly name: string
  readonly story: string
  readonly seeds: string
  readonly breaks: string
}

export interface Judged extends Mutation {
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

async function judge(mutation: Mutation, url: string): Promise<Judged> {
  const { name, story, seeds, breaks } = mutation
  const folder = `${mutantFolder}/${name}`
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  // Inside the package, so that the copies find the same dependencies.
  for (const part of ['src', 'sim', 'package.json'])
    await cp(`${packageFolder}${part}`, `${folder}/${part}`, { recursive: true })
  await run('git', ['apply', `--directory=packages/bellwether/${mutantName}/${name}`, `${patchFolder}${name}.patch`], {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
  })
  const script =
    story === '-' ? ['sim/hot-updates.ts'] : ['sim/main.ts', '--story', story, '--seeds', seeds, '--stop', '--json']
  const args = ['--import', 'tsx', '--conditions=@bellwether/source', ...script, '--url', url]
  const { stdout } = await run(process.execPath, args, {
    cwd: folder,
    timeout: timeoutMs,
    maxBuffer: 64 * 1024 * 1024,
  }).catch(
    // A simulation that finds something exits with 1: that is its answer.
    (error: Error & { stdout?: string; stderr?: string }) => {
      if (error.stdout?.startsWith('{')) return { stdout: error.stdout }
      throw new Error(`the mutant ${name} did not run: ${error.stderr ?? error.message}`)
    },
  )
  await rm(folder, { recursive: true, force: true })
  const { found } = JSON.parse(stdout) as { found: { seed?: number; breaks: string; finding: string }[] }
  const hit = found.find((one) => one.breaks === breaks)
  const detail = hit?.finding ?? found[0]?.finding ?? 'nothing was found'
  return { ...mutation, found: hit !== undefined, detail, ...(hit?.seed === undefined ? {} : { seed: hit.seed }) }
}

export async function judgeAll(names: readonly string[], onJudged: (judged: Judged) => void): Promise<Judged[]> {
  const all = (await readdir(patchFolder))
    .filter((file) => file.endsWith('.patch'))
    .map((file) => file.replace(/\.patch$/, ''))
  const chosen = names.length === 0 ? all.sort() : names
  const cluster = await ownCluster()
  const judged: Judged[] = []
  try {
    for (const name of chosen) {
      const one = await judge(await readMutation(name), await cluster.database())
      judged.push(one)
      onJudged(one)
    }
  } finally {
    await cluster.remove()
    await rm(mutantFolder, { recursive: true, force: true })
  }
  return judged
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false } },
  })
  const judged = await judgeAll(positionals, (one) => {
    const where = one.seed === undefined ? '' : ` (seed ${one.seed})`
    process.stderr.write(`${one.found ? 'found ' : 'MISSED'} ${one.name}${where}: ${one.detail.slice(0, 200)}\n`)
  })
  const missed = judged.filter((one) => !one.found)
  if (values.json)
    process.stdout.write(
      `${JSON.stringify({ mutations: judged.length, missed: missed.map(({ name }) => name), judged })}\n`,
    )
  else process.stdout.write(`${judged.length - missed.length} of ${judged.length} mutations found\n`)
  process.exitCode = missed.length === 0 ? 0 : 1
}
