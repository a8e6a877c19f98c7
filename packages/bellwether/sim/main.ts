/**
 * `npm run sim -- --seeds N [--from N] [--story NAME] [--calm] [--crashes] [--url URL] [--stop] [--json]`: plays seeds and reports findings.
 * Without --url it starts its own PostgreSQL. The hash covers all traces: the same seeds give the same hash.
 */
import { createHash } from 'node:crypto'
import { parseArgs } from 'node:util'
import { systemClock } from '@bellwether/base'
import { ownCluster } from './cluster.js'
import { crashPoints, playCrashes } from './crashes.js'
import { play, storyOf, type Found } from './play.js'
import { stories, type StoryName } from './scenarios.js'
import { openKernelWorld } from './stage.js'

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '20' },
    from: { type: 'string', default: '1' },
    story: { type: 'string' },
    calm: { type: 'boolean', default: false },
    crashes: { type: 'boolean', default: false },
    stop: { type: 'boolean', default: false },
    url: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})

function usage(problem: string): never {
  process.stderr.write(
    `${problem}\nusage: npm run sim -- --seeds N [--from N] [--story NAME] [--calm] [--crashes] [--stop] [--url URL] [--json]\n`,
  )
  process.exit(2)
}

function parseCount(text: string, name: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1)
    usage(`--${name} must be a whole number from 1 (got ${JSON.stringify(text)})`)
  return value
}

const seeds = parseCount(options.seeds, 'seeds')
const from = parseCount(options.from, 'from')
if (options.story !== undefined && !(options.story in stories)) {
  usage(`unknown story ${JSON.stringify(options.story)}; use one of: ${Object.keys(stories).join(', ')}`)
}

const cluster = options.url === undefined ? await ownCluster() : undefined
const world = await openKernelWorld(options.url ?? (await cluster!.database()))
const startedMs = systemClock.monotonicMs()
const hash = createHash('sha256')
const found: Found[] = []
let steps = 0
let played = 0
try {
  for (const crash of options.crashes ? crashPoints(options.story as StoryName | undefined) : []) {
    const result = await playCrashes(world, crash, from)
    hash.update(result.hash)
    steps += result.steps
    played += result.runs
    found.push(...result.found)
    process.stderr.write(
      `${crash.story}, ${crash.fibre}: ${result.runs} crash points, ${result.found.length} findings\n`,
    )
  }
  for (let seed = from; !options.crashes && seed < from + seeds; seed += 1) {
    const story = (options.story as StoryName | undefined) ?? storyOf(seed)
    const result = await play(world, seed, story, !options.calm)
    hash.update(result.hash)
    steps += result.steps
    played += 1
    if (result.found !== undefined) {
      found.push(result.found)
      process.stderr.write(`seed ${seed} (${story}): ${result.found.finding}\n`)
    }
    if (process.stderr.isTTY || seed % 10 === 0)
      process.stderr.write(`${played} of ${seeds} seeds, ${found.length} findings\n`)
    if (options.stop && found.length > 0) break
  }
} finally {
  await world.close()
  await cluster?.remove()
}

const seconds = (systemClock.monotonicMs() - startedMs) / 1_000
const report = {
  ran: {
    [options.crashes ? 'crash_points' : 'seeds']: played,
    from,
    story: options.story ?? 'all',
    faults: !options.calm,
  },
  figures: { steps, seconds: Math.round(seconds), steps_per_s: Math.round(steps / seconds) },
  trace: hash.digest('hex').slice(0, 16),
  found,
}
if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`)
else {
  for (const one of found) {
    process.stdout.write(
      `\nseed ${one.seed}, ${one.story}: ${one.finding}\nsmallest plan: ${JSON.stringify(one.plan)}\n${one.trace.join('\n')}\n`,
    )
  }
  process.stdout.write(
    `${played} seeds, ${steps} steps in ${Math.round(seconds)} s, trace ${report.trace}: ${found.length} findings\n`,
  )
}
process.exitCode = found.length === 0 ? 0 : 1
