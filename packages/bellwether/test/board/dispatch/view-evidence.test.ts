/** Evidence from a view: real `bellwether view`, `bellwether sensor` and autopilot, on a real database. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { Reader } from '../../../src/board/log/fold/replay.js'
import type { Task } from '../../../src/board/log/task.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { openEvidence } from '../../../src/runtime/parts/board/evidence.js'
import { remoteEvidence } from '../../../src/runtime/parts/board/remote-evidence.js'
import { loadSettings } from '../../../src/settings/load.js'
import { kernelPerFile, project } from '../../support/kernel.js'
import { inProcess } from '../../cli/running-up.js'
import { runCli, type Cli } from '../../support/process.js'
import { until } from '../../support/until.js'

const t = kernelPerFile({ time: 'real' })
const folders: string[] = []
const started: Cli[] = []
beforeAll(async () => {
  await t.agents('coder')
})
afterEach(async () => {
  for (const cli of started.splice(0)) {
    if (cli.alive()) cli.signal('SIGKILL')
    await cli.ended
  }
})
afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true })
})

const folder = async () => {
  const made = await mkdtemp(join(tmpdir(), 'bellwether-eyes-'))
  folders.push(made)
  return made
}
function run(words: readonly string[], cwd: string, env: Record<string, string> = {}): Cli {
  const cli = runCli([...words, '--json'], { cwd, env })
  started.push(cli)
  return cli
}
// Four processes start and scan here on a busy machine.
const patienceMs = 60_000
const key = 'the-key-of-the-view'
const ids = uuidv7(systemClock, systemRandom)

async function openView(port = '0'): Promise<{ readonly cli: Cli; readonly url: string }> {
  const cli = run(['view', '--view', 'work', '--key', `work=${key}`, '--port', port], tmpdir())
  const { url } = (await cli.ready(patienceMs)) as { url: string }
  return { cli, url }
}

const policy = (root: string, name: string, contents: object) =>
  writeFile(join(root, 'config', name), JSON.stringify(contents))

/** The files are in `shared/project`; the sensor watches `shared`, as another host would. */
async function place() {
  const shared = await folder()
  const root = join(shared, 'project')
  await mkdir(join(root, 'config'), { recursive: true })
  await policy(root, 'recovery-policy.json', { reasonPolicies: { incomplete_output: { cooldownSec: 3_600 } } })
  await policy(root, 'retry-policy.json', { timeouts: { synthesisSec: 10 }, retry: { maxAttempts: 1 } })
  return { shared, root }
}

async function taskOf(root: string, taskId: string): Promise<Task | undefined> {
  const log = await systemDisk.openLog(join(root, 'state', 'tasks.jsonl'), 'read')
  if (log === 'missing') return undefined
  const reader = new Reader()
  await reader.read(log)
  await log.close()
  return reader.fold.state().tasks.get(taskId)
}

function autopilot(root: string, url: string): Cli {
  return run(['task', 'autopilot', '--project', project, '--root', root], root, {
    BELLWETHER__DATABASE__URL: t.url,
    BELLWETHER__BOARD__AUTOPILOT_INTERVAL_SECONDS: '0.2',
    BELLWETHER__BOARD__VIEW_URL: url,
    BELLWETHER__BOARD__VIEW: 'work',
    BELLWETHER__BOARD__VIEW_KEY: key,
    BELLWETHER__BOARD__VIEW_PATH: '/project',
  })
}

/** The agent of the next turn: runs `work` and claims these files. */
async function agentWorks(files: readonly string[], work: () => Promise<unknown>): Promise<void> {
  const turn = await until('a turn', async () => (await t.claim())[0], patienceMs)
  await work()
  const text = JSON.stringify({ summary: 'done', files })
  await t.kernel.deliver({ ...turn, status: 'success', content: { text } })
}

const add = async (root: string, title: string) => (await inProcess(['task', 'add', title, '--root', root])).code
const statusIs = (root: string, taskId: string, status: string) =>
  until(
    `${taskId} is ${status}`,
    async () => {
      const task = await taskOf(root, taskId)
      return task?.status === status ? task : undefined
    },
    patienceMs,
  )

it('[V7.1] hazard 21: claimed files are checked in the view, an excluded one on the disk: a missing file is found, a present one is accepted, and an unreachable view means wait', async () => {
  const { shared, root } = await place()
  await writeFile(join(root, 'old.txt'), 'from before')
  const { cli: view, url } = await openView()
  run(['sensor', '--root', shared, '--server', url, '--key', key, '--id', 'host-1', '--exclude', '*.tmp'], shared)
  const eyes = remoteEvidence({ url, key, view: 'work', path: '/project', root, ids })
  await until(
    'the view is ready',
    async () => {
      const [found] = await eyes.inspect(['old.txt'], null)
      return found?.found === 'present' ? true : undefined
    },
    patienceMs,
  )
  const pilot = autopilot(root, url)
  await pilot.ready(patienceMs)

  expect(await add(root, 'Claims what it did not do')).toBe(0)
  await agentWorks(['nothing.txt'], async () => undefined)
  const missing = await statusIs(root, 'T-1', 'blocked')
  expect(missing.fields).toMatchObject({ reasonCode: 'incomplete_output' })
  expect(JSON.stringify(missing.fields['spawn'])).toContain('nothing.txt is claimed but does not exist')

  expect(await add(root, 'Claims what was there before')).toBe(0)
  await agentWorks(['old.txt'], async () => undefined)
  const stale = await statusIs(root, 'T-2', 'blocked')
  expect(JSON.stringify(stale.fields['spawn'])).toContain('old.txt has not changed since the run started')

  expect(await add(root, 'Does it')).toBe(0)
  await agentWorks(['report.txt', 'report.tmp'], async () => {
    await writeFile(join(root, 'report.txt'), 'it is done')
    await writeFile(join(root, 'report.tmp'), 'it too')
  })
  const done = await statusIs(root, 'T-3', 'done')
  expect(done.fields['evidence']).toMatchObject({
    files: [
      { path: 'report.txt', size: 10, sha256: expect.stringMatching(/^[0-9a-f]{64}$/), from: 'view' },
      { path: 'report.tmp', size: 6, sha256: expect.stringMatching(/^[0-9a-f]{64}$/), from: 'disk' },
    ],
  })

  // The view stops during a turn: the file does not count as missing, and after the maximum wait a person decides.
  expect(await add(root, 'Nobody can see it')).toBe(0)
  await policy(root, 'acceptance-policy.json', { maxWaitSec: 0.5 })
  await agentWorks(['unseen.txt'], async () => {
    view.signal('SIGKILL')
    await view.ended
    await writeFile(join(root, 'unseen.txt'), 'it is done')
  })
  const unseen = await statusIs(root, 'T-4', 'blocked')
  expect(unseen.fields).toMatchObject({ reasonCode: 'evidence_unavailable' })
  expect(unseen.reason).toContain('unseen.txt cannot be inspected yet')
  expect(unseen.runs).toMatchObject([{ outcome: 'success', reasonCode: 'evidence_unavailable' }])
  pilot.signal('SIGTERM')
  expect(await pilot.ended).toBe(0)
})

it('a view without sensors and a wrong key never make a file count as missing', async () => {
  const { root } = await place()
  const { url } = await openView()
  const options = { url, key, view: 'work', path: '/', root, ids }
  expect(await remoteEvidence(options).inspect(['a.txt', '../x'], null)).toEqual([
    { path: 'a.txt', found: 'not_ready', from: 'view' },
    { path: '../x', found: 'not_ready', from: 'view' },
  ])
  const wrongKey = remoteEvidence({ ...options, key: 'another-key-12345' })
  await expect(wrongKey.inspect(['a.txt'], null)).rejects.toMatchObject({ code: 'view_refused' })
  await expect(remoteEvidence({ ...options, view: 'other' }).changeToken()).rejects.toMatchObject({
    code: 'view_refused',
  })
  const unreachable = remoteEvidence({ ...options, url: 'http://127.0.0.1:9' })
  await expect(unreachable.inspect(['a.txt'], null)).rejects.toMatchObject({ code: 'server_away' })
  const stop = AbortSignal.abort(new Error('late'))
  await expect(remoteEvidence(options).inspect(['a.txt'], null, stop)).rejects.toMatchObject({ code: 'aborted' })
})

it('incomplete view settings are rejected before anything starts', async () => {
  const { root } = await place()
  const of = (env: Record<string, string>) =>
    openEvidence({ settings: loadSettings({ folder: root, env }).board, root, ids })
  const url = { BELLWETHER__BOARD__VIEW_URL: 'http://127.0.0.1:7717' }
  expect(() => of(url)).toThrow('view is not')
  expect(() => of({ ...url, BELLWETHER__BOARD__VIEW: 'work' })).toThrow('view_key is not')
  expect(() =>
    of({ BELLWETHER__BOARD__VIEW_URL: 'ftp://x', BELLWETHER__BOARD__VIEW: 'w', BELLWETHER__BOARD__VIEW_KEY: 'k' }),
  ).toThrow('must be an http or https URL')
  await writeFile(join(root, 'a.txt'), 'x')
  expect(await of({}).inspect(['a.txt'], null)).toMatchObject([{ found: 'present', size: 1 }])
  expect(await readFile(join(root, 'a.txt'), 'utf8')).toBe('x')
})
