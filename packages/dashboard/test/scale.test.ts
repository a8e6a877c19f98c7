/**
 * The dashboard on a large fleet: a real server, a real browser, turns of 90 days, waiting tasks, and events while the pages are open.
 * `npm run scale` runs it with 100,000 turns, 10,000 tasks and 200 events/s for MINUTES (default: 30) and judges times and memory; here it
 * is small and judges what the pages show.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { loadavg } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { openTab } from './support/browser.js'
import { home } from './support/build.js'
import { heapBytes, interactiveMs, median, recordLongTasks } from './support/interactive.js'
import { openServer, project, type RealServer } from './support/real-server.js'

const isFull = process.env['BELLWETHER_SCALE'] === 'full'
const size = isFull
  ? { turns: 100_000, tasks: 10_000, agents: 200, events: 200, loads: 5 }
  : { turns: 1_000, tasks: 20, agents: 20, events: 40, loads: 1 }
const minutes = isFull ? Number(process.env['MINUTES'] ?? 30) : 0
// What a page may take, and how much its memory may grow in the whole time.
const interactiveMaxMs = 1_000
const growthMax = 0.1

interface Fleet {
  /** Ends the events; how many there were. */
  end(): Promise<{ readonly events: number; readonly eventsPerSecond: number }>
}

/** Fills the database and makes events, from a process of its own. */
async function startFleet(databaseUrl: string): Promise<Fleet> {
  const product = join(home, '../bellwether')
  const tsx = pathToFileURL(createRequire(join(product, 'package.json')).resolve('tsx')).href
  const options = Object.entries({ database: databaseUrl, project, ...size })
    .filter(([name]) => ['database', 'project', 'turns', 'agents', 'events'].includes(name))
    .flatMap(([name, value]) => [`--${name}`, String(value)])
  const script = join(product, 'bench/scale-fleet.ts')
  const args = ['--import', tsx, '--conditions=@bellwether/source', script, ...options]
  const child = spawn(process.execPath, args, { cwd: dirname(home), stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const read = async () => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error(`The fleet ended early: ${String(await exited)}`)
    return JSON.parse(value) as { readonly events: number; readonly eventsPerSecond: number; readonly ms: number }
  }
  const { ms } = await read()
  report(`${size.turns} turns written in ${ms} ms`)
  return {
    async end() {
      child.stdin.end()
      const made = await read()
      await exited
      return made
    },
  }
}

/** Tasks that wait for one whose approval is missing. */
async function addTasks(server: RealServer): Promise<void> {
  const add = (task: object) => server.ask<{ taskId: string }>('POST', '/board/tasks', task)
  const { taskId } = await add({ title: 'Wait for a person', agent: 'scale-0', requiresApproval: true })
  let left = size.tasks - 1
  const adder = async () => {
    while (left > 0) {
      left -= 1
      const at = left
      await add({
        title: `Do part ${at}`,
        agent: `scale-${at % size.agents}`,
        dependencies: [taskId],
        priority: at % 7,
      })
    }
  }
  await Promise.all(Array.from({ length: 8 }, adder))
}

const report = (line: string) => void (isFull && process.stdout.write(`${line}\n`))
const inMb = (sizes: readonly number[]) => `${(sizes.at(-1)! / 1e6).toFixed(1)} MB`
const load = () => `load ${loadavg()[0]!.toFixed(1)}`

it(
  'every page shows a large fleet soon, its memory stays flat while events arrive, and Trends counts every turn',
  { timeout: (minutes + 60) * 60_000 },
  async () => {
    const server = await openServer()
    onTestFinished(() => server.close())
    const tab = await openTab()
    onTestFinished(() => tab.close())
    const { page } = tab
    await recordLongTasks(page)
    await addTasks(server)
    report(`${size.tasks} tasks added`)
    const fleet = await startFleet(server.databaseUrl)
    const ended = async () => {
      const trends = await server.ask<{ charts: { series: { name: string; total: number }[] }[] }>(
        'GET',
        `/projects/${project}/trends?range=90d`,
      )
      return trends.charts[0]!.series.reduce((sum, { total }) => sum + total, 0)
    }
    // The oldest turns may lie before the first bar.
    await expect.poll(ended, { interval: 500, timeout: 600_000 }).toBeGreaterThan(size.turns * 0.98)
    // A word of a turn that is days old, and that retention keeps: the list of words says where it is.
    const needle = Math.round(size.turns * 0.8)
    const search = () =>
      server.ask<{ turns: object[]; cursor: string | null }>('GET', `/projects/${project}/turns?text=${needle}`)
    await expect
      .poll(async () => [(await search()).turns.length, (await search()).cursor], { interval: 500, timeout: 600_000 })
      .toEqual([1, null])
    const { turns } = await server.ask<{ turns: { agent_turn_id: string }[] }>(
      'GET',
      `/projects/${project}/turns?status=failed&limit=1`,
    )
    const pages = [
      ['/fleet', 'scale-1'],
      ['/board', 'Do part'],
      ['/turns', 'scale-'],
      [`/turns?text=${needle}`, '1 shown'],
      [`/turns/${turns[0]!.agent_turn_id}`, 'the tests do not pass'],
      ['/trends?range=90d', 'success'],
      ['/trends?range=1h', 'success'],
      ['/schedules', 'No schedules yet'],
      ['/needs-you', 'Wait for a person'],
      ['/workspace', 'agents'],
      ['/health', 'no beat for 30 s'],
    ] as const
    await page.goto(server.loginUrl)
    await page.getByRole('heading', { level: 1, name: 'Fleet' }).waitFor()
    const at = (path: string) => `${server.url}/p/${project}${path}`
    const slow: string[] = []
    for (const [path, shows] of pages) {
      const times: number[] = []
      for (let time = 0; time < size.loads; time += 1) times.push(await interactiveMs(page, at(path), shows))
      const shown = path.startsWith('/turns/') ? '/turns/TURN' : path
      report(`${shown}: interactive after ${times.map(Math.round).join(', ')} ms, ${load()}`)
      if (median(times) > interactiveMaxMs) slow.push(`${shown}: ${Math.round(median(times))} ms`)
    }
    // Long enough for many collections and for every list to reach its bound.
    const session = await page.context().newCDPSession(page)
    const heaps: number[] = []
    const residents: number[] = []
    const beganMs = Date.now()
    const endMs = Date.now() + minutes * 60_000
    for (let round = 0; round === 0 || Date.now() < endMs; round += 1) {
      const [path, shows] = pages[round % pages.length]!
      await tab.visit(`/p/${project}${path}`)
      await page.getByText(shows).first().waitFor()
      if (round % pages.length !== 0) continue
      heaps.push(await heapBytes(session))
      residents.push(server.residentBytes())
      const minute = ((Date.now() - beganMs) / 60_000).toFixed(1)
      report(`minute ${minute}: heap of the page ${inMb(heaps)}, server ${inMb(residents)}, ${load()}`)
      // The page is open for a while, as on a wall.
      if (isFull) await page.waitForTimeout(15_000)
    }
    const made = await fleet.end()
    report(`${made.events} events, ${made.eventsPerSecond} per second`)
    expect(made.events).toBeGreaterThan(0)
    expect(tab.errors()).toEqual([])
    if (!isFull) return
    expect(made.eventsPerSecond).toBeGreaterThan(size.events * 0.9)
    expect(slow).toEqual([])
    // The first third fills caches.
    for (const [name, sizes] of Object.entries({ page: heaps, server: residents })) {
      const third = Math.floor(sizes.length / 3)
      const growth = median(sizes.slice(-third)) / median(sizes.slice(third, 2 * third)) - 1
      report(`memory of the ${name}, growth from the second to the last third: ${(100 * growth).toFixed(1)} %`)
      expect([name, growth < growthMax]).toEqual([name, true])
    }
  },
)
