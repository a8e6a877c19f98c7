import { rename, rm, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock, makeWake } from '@bellwether/base'
import { beforeEach, expect, it } from 'vitest'
import { watchFolder } from '../../src/ports/disk/watch-folder.js'
import { openAgentFolder, type AgentFolder } from '../../src/worker/roster/folder.js'
import { openRoster, type Roster } from '../../src/worker/roster/roster.js'
import { kernelPerFile, project } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'

const t = kernelPerFile()
let folder: string
let files: AgentFolder
let roster: Roster
const logged: string[] = []
const say = (fields: object, message: string) => void logged.push(`${message} ${JSON.stringify(fields)}`)
const log = { info: say, warn: say, error: say }

function open(origin = 'here:agents'): Roster {
  files = openAgentFolder({ folder, log })
  const executor = ({ settings }: { settings: { executor: string; command?: unknown } }) =>
    settings.executor === 'command' ? async () => ({ deliver: { text: String(settings.command) } }) : undefined
  return openRoster({ kernel: t.kernel, projectId: project, folder: files, origin, log, executor })
}

beforeEach(async () => {
  folder = await testFolder()
  roster = open()
  logged.length = 0
})

const write = (name: string, text: string) => writeFile(join(folder, `${name}.md`), text)
const agent = (command: string, more = '') => `---\ncommand: ${command}\nworker_target: w\n${more}---\nDo it.\n`
const row = async (agentId: string) =>
  (
    await t.all<{ status: string; worker_target: string; spec: { command: string; instructions: string } | null }>(
      `select a.status, a.worker_target, p.spec from resource.project_agents a
        left join resource.profiles p using (project_id, profile_id) where agent_id = $1`,
      agentId,
    )
  )[0]
const turnOf = (agentId: string) => ({ projectId: project, agentId, agentTurnId: 't', profileId: null, payload: {} })
const answer = async (agentId: string) => {
  const run = roster.agent(turnOf(agentId))
  const action = await run?.({ turn: { agentId } } as Parameters<typeof run>[0])
  return action === undefined ? undefined : 'deliver' in action && 'text' in action.deliver ? action.deliver.text : ''
}

it('adds agents from files, updates them, and retires them when their file is gone', async () => {
  await write('ann', agent('one'))
  await roster.step()
  expect(await row('ann')).toMatchObject({
    status: 'active',
    worker_target: 'w',
    spec: { command: 'one', instructions: 'Do it.' },
  })
  expect(await answer('ann')).toBe('one')

  await write('ann', agent('two-is-longer'))
  await roster.step()
  expect([await answer('ann'), (await row('ann'))?.spec?.command]).toEqual(['two-is-longer', 'two-is-longer'])

  await unlink(join(folder, 'ann.md'))
  await roster.step()
  expect((await row('ann'))?.status).toBe('active')
  await roster.step()
  expect((await row('ann'))?.status).toBe('retired')
  expect(await answer('ann')).toBeUndefined()
  await expect(t.kernel.enqueue({ projectId: project, agentId: 'ann', instruction: 'x' })).rejects.toThrow('retired')

  await write('ann', agent('three'))
  await roster.step()
  expect(await row('ann')).toMatchObject({ status: 'active', spec: { command: 'three' } })
  expect(await t.kernel.enqueue({ projectId: project, agentId: 'ann', instruction: 'x' })).toMatchObject({
    duplicate: false,
  })
})

it('an agent whose first file is invalid is in the roster, and its turn fails with the problem', async () => {
  await write('bad', '---\ncommand: 5\n---\n')
  await roster.step()
  expect((await row('bad'))?.status).toBe('active')
  expect(await answer('bad')).toMatch(/its agent file is invalid: \S+bad\.md:2: /)
  await write('bad', agent('fixed'))
  await roster.step()
  expect([await answer('bad'), (await row('bad'))?.worker_target]).toEqual(['fixed', 'w'])
})

it('reports an invalid file once, and keeps the last valid version', async () => {
  await write('bob', agent('good'))
  await roster.step()
  await write('bob', agent('worse', 'cwdd: x\n'))
  for (const _look of [1, 2, 3]) await roster.step()
  expect(
    logged.filter((line) => line.includes('bob.md:4: unknown key \\"cwdd\\". Did you mean \\"cwd\\"?')),
  ).toHaveLength(1)
  expect([await answer('bob'), (await row('bob'))?.spec?.command, (await row('bob'))?.status]).toEqual([
    'good',
    'good',
    'active',
  ])
  await write('bob', agent('fixed'))
  await roster.step()
  expect(await answer('bob')).toBe('fixed')
})

it('gives an agent whose file was never valid turns that fail with the problem', async () => {
  await write('cid', 'no front matter')
  await write('dee', '---\nexecutor: person\n---\n')
  await roster.step()
  expect(await answer('cid')).toContain('its agent file is invalid')
  expect(await answer('dee')).toContain('this worker has no executor "person"')
  expect(roster.agent({ ...turnOf('dee'), projectId: 'another' })).toBeUndefined()
})

it('retires only agents of this folder, also after a restart', async () => {
  await t.agents('made-by-hand')
  await write('eve', agent('one'))
  await write('fay', agent('one'))
  await roster.step()
  await unlink(join(folder, 'eve.md'))
  const elsewhere = open('elsewhere:agents')
  await elsewhere.step()
  await elsewhere.step()
  expect([(await row('eve'))?.status, (await row('made-by-hand'))?.status]).toEqual(['active', 'active'])
  // The other folder has put fay, which it has too; this one still knows eve as its own.
  roster = open()
  await roster.step()
  expect([(await row('eve'))?.status, (await row('fay'))?.status, (await row('made-by-hand'))?.status]).toEqual([
    'retired',
    'active',
    'active',
  ])
})

it('removes no agent if the folder cannot be read', async () => {
  await write('gil', agent('one'))
  await roster.step()
  await rename(folder, `${folder}-away`)
  await expect(roster.step()).rejects.toThrow('ENOENT')
  await expect(roster.step()).rejects.toThrow('ENOENT')
  expect([await answer('gil'), (await row('gil'))?.status]).toEqual(['one', 'active'])
  await rm(`${folder}-away`, { recursive: true })
})

it('wakes the listener once for changes that come together', async () => {
  const wake = makeWake(systemClock)
  let calls = 0
  const watching = watchFolder(
    folder,
    () => ((calls += 1), wake.now()),
    (error) => expect(error).toBeUndefined(),
  )
  for (const name of ['hal', 'ida', 'joe']) await write(name, agent('one'))
  await wake.wait(10_000, new AbortController().signal)
  expect(calls).toBe(1)
  watching.close()
  let trouble: unknown
  watchFolder(
    join(folder, 'nowhere'),
    () => undefined,
    (error) => (trouble = error),
  ).close()
  expect(trouble).toMatchObject({ code: 'ENOENT' })
})
