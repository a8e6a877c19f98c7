/**
 * Agents of a running `up` work on many tasks of one repository, in worktrees and with `merge: auto`, while workers, guardians and `up` itself are killed with
 * SIGKILL at random moments. Afterwards every accepted change must be on the base exactly once, and nothing else may be left. Used by `npm run
 * worktrees` and by a short test.
 */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { errorMessage, seededRandom, systemClock, systemRandom, type SeededRandom } from '@bellwether/base'
import { openBoard } from '../../src/board/log/board.js'
import type { BoardState } from '../../src/board/log/task.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { readProcesses } from '../../src/ports/processes/proc.js'
import { dataFolderOf } from '../../src/runtime/data-folder.js'
import { repositoryAt } from '../support/git-repository.js'
import { runCli, type Cli } from '../support/process.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

export interface FleetOptions {
  /** An empty folder for the repository and the run-time files. */
  readonly folder: string
  readonly agents: number
  readonly tasks: number
  readonly kills: number
  readonly seed: number
  readonly withinMs: number
  readonly say: (line: string) => void
}

export interface FleetReport {
  readonly kills: Readonly<Record<string, number>>
  readonly seconds: number
  /** What should not be so. Empty: the proof holds. */
  readonly violations: readonly string[]
}

// Every task writes a file of its own and a line of a shared file. Tasks that write into the same section at the same time conflict. The agent
// keeps both sides of a conflict, and half of them commit themselves.
const sections = 4
const sharedText = Array.from(
  { length: sections },
  (_, at) => `section ${at}\n${`end of section ${at}\n`.repeat(5)}`,
).join('')
const agent = `id=$(sed -n 's/^Task //p' | head -n 1)
git merge -q main > /dev/null 2>&1 || {
  sed -i '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' shared.txt
  git add -A && git commit -q -m "$id: merge main"
} > /dev/null 2>&1
grep -q "^$id\\$" shared.txt || sed -i "/^section $((\${id#T-} % ${sections}))\\$/a $id" shared.txt
pwd > "$id.txt"
case $id in *[02468]) git add -A; git commit -q -m "$id: work" > /dev/null 2>&1 ;; esac
echo "{\\"files\\": [\\"$id.txt\\", \\"shared.txt\\"]}"
`
const identity = Object.fromEntries(
  ['AUTHOR', 'COMMITTER'].flatMap((who) => [
    [`GIT_${who}_NAME`, 'agent'],
    [`GIT_${who}_EMAIL`, 'agent@example.org'],
  ]),
)
const rule = { maxAttempts: 500, cooldownSec: 0 }
const upReadyMs = 120_000
const quickly = {
  BOARD__SPAWN_GRACE_SECONDS: '5',
  BOARD__CLAIM_LEASE_SECONDS: '5',
  BOARD__AUTOPILOT_INTERVAL_SECONDS: '1',
  WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '5',
  WORKER__WATCHDOG_INTERVAL_SECONDS: '1',
  WORKER__BEAT_SECONDS: '1',
  // The kills would end turns that were alone in their worker.
  WORKER__MAX_DEATHS: '100',
}

export async function runFleet(options: FleetOptions): Promise<FleetReport> {
  const { say, tasks, kills } = options
  const startedMs = systemClock.monotonicMs()
  const project = join(options.folder, 'project')
  const state = join(options.folder, 'state')
  const ids = Array.from({ length: tasks }, (_, at) => `T-${at + 1}`)
  plant(project, options.agents)
  const base = repositoryAt(project).git('rev-parse', 'main')
  const board = await openBoard({
    root: project,
    owner: 'fleet',
    clock: systemClock,
    ids: uuidv7(systemClock, systemRandom),
    log: quietLog,
  })
  const env = {
    XDG_STATE_HOME: state,
    ...identity,
    ...Object.fromEntries(Object.entries(quickly).map(([name, value]) => [`BELLWETHER__${name}`, value])),
    BELLWETHER__BOARD__MAX_CONCURRENT_SPAWNS: String(options.agents),
  }
  let up: Cli | undefined
  const start = async () => {
    up = runCli(['up', '--port', '0', '--trust', '--json', '--parent-pipe'], { cwd: project, env })
    await up.ready(upReadyMs)
  }
  const random = seededRandom(options.seed)
  const killed: Record<string, number> = {}
  try {
    await board.write(() =>
      ids.map((taskId, at) => ({
        taskId,
        type: 'task_created',
        actor: 'fleet',
        payload: {
          title: `Write ${taskId}`,
          agent: `a${(at % options.agents) + 1}`,
          verify: [`test -s ${taskId}.txt && ! grep -q '^<<<<<<<' shared.txt`],
        },
      })),
    )
    await start()
    let done = 0
    let killAt = 3
    await until(
      'all tasks are done',
      async () => {
        if (up?.alive() !== true) await start()
        const { eventCount, tasks: all } = await board.sync()
        const now = [...all.values()].filter(({ status }) => status === 'done').length
        if (now !== done) say(`${now} of ${tasks} tasks are done`)
        done = now
        const count = Object.values(killed).reduce((sum, one) => sum + one, 0)
        if (count < kills && eventCount - tasks >= killAt) {
          const victim = chooseVictim(random, up!.pid, count)
          if (victim !== undefined) {
            say(`kill -9 ${victim.pid}: ${victim.role}`)
            process.kill(victim.pid, 'SIGKILL')
            if (victim.role === 'up') await up!.ended
            killed[victim.role] = (killed[victim.role] ?? 0) + 1
            killAt = eventCount - tasks + 1 + Math.floor(random.next() * Math.max(1, (tasks * 6) / kills))
          }
        }
        return done === tasks ? true : undefined
      },
      options.withinMs,
    ).catch((error: unknown) => {
      throw new Error(`${errorMessage(error)}; open: ${openTasks(board.state)}`, { cause: error })
    })
    // One more start removes what the killed processes left.
    up?.signal('SIGTERM')
    await up?.ended
    await start()
    const violations = await judge({ project, state, ids, base })
    return { kills: killed, seconds: Math.round((systemClock.monotonicMs() - startedMs) / 1_000), violations }
  } finally {
    if (up?.alive() === true) up.signal('SIGTERM')
    await up?.ended
    await board.close()
  }
}

/** The tasks that are not done, with what they wait for. */
export function openTasks({ tasks }: BoardState): string {
  return [...tasks.values()]
    .filter(({ status }) => status !== 'done')
    .map(({ taskId, status, reason, runs }) => `${taskId} ${status} after ${runs.length} runs: ${reason ?? ''}`)
    .join('; ')
}

function plant(project: string, agents: number): void {
  const repository = repositoryAt(project)
  repository.write('shared.txt', sharedText)
  repository.git('init', '-q', '-b', 'main')
  repository.write('agent.sh', agent)
  repository.write('.gitignore', 'state/\nconfig/\nagents/\n')
  for (let at = 1; at <= agents; at += 1)
    repository.write(
      `agents/a${at}.md`,
      `---\ncommand: [sh, agent.sh]\nnetwork: off\nenv: [${Object.keys(identity).join(', ')}]\nworker_target: w${(at % 2) + 1}\n---\nYou write files.\n`,
    )
  repository.write('config/workspace-policy.json', JSON.stringify({ workspace: 'worktree', merge: 'auto' }))
  const chain = Array.from({ length: agents }, (_, at) => `a${at + 1}`)
  repository.write(
    'config/recovery-policy.json',
    JSON.stringify({ default: rule, recoveryChain: chain, reasonPolicies: { merge_conflict: rule } }),
  )
  repository.write('config/budget-policy.json', JSON.stringify({ global: { maxTaskRetries: 1_000 } }))
  repository.commit('start')
}

interface Victim {
  readonly pid: number
  readonly role: string
}

/** A worker, a guardian or `up`; the first three kills take one of each. */
function chooseVictim(random: SeededRandom, upPid: number, count: number): Victim | undefined {
  const all = readProcesses()
  const below = new Set([upPid])
  for (let grown = true; grown;) {
    grown = false
    for (const { pid, parent } of all)
      if (below.has(parent) && !below.has(pid)) {
        below.add(pid)
        grown = true
      }
  }
  const found = [...below].flatMap((pid): Victim[] => {
    if (pid === upPid) return [{ pid, role: 'up' }]
    const line = commandOf(pid)
    if (line.includes('guardian-main')) return [{ pid, role: 'guardian' }]
    return / worker .*--target/.test(line) ? [{ pid, role: 'worker' }] : []
  })
  const role = ['worker', 'guardian', 'up'][count] ?? random.pick(['worker', 'worker', 'guardian', 'up'])
  const victims = found.filter((one) => one.role === role)
  return victims.length === 0 ? undefined : random.pick(victims)
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')
  } catch {
    return '' // the process has ended
  }
}

interface Scene {
  readonly project: string
  readonly state: string
  readonly ids: readonly string[]
  readonly base: string
}

const leftMs = 60_000

async function judge({ project, state, ids, base }: Scene): Promise<readonly string[]> {
  const repository = repositoryAt(project)
  const git = (...args: string[]) => repository.git(...args)
  const violations: string[] = []
  const check = (what: string, found: string, wanted: string) => {
    if (found !== wanted)
      violations.push(`${what}: ${JSON.stringify(found.slice(0, 500))}, not ${JSON.stringify(wanted)}`)
  }
  const worktrees = join(stateOf(project, state), 'worktrees')
  const left = () =>
    readdirSync('/proc').filter((pid) => {
      try {
        return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(worktrees)
      } catch {
        return false // it has ended
      }
    })
  const isClean = () =>
    left().length === 0 &&
    git('worktree', 'list').split('\n').length === 1 &&
    git('for-each-ref', '--format=%(refname)') === 'refs/heads/main'
  // Maintenance runs at the start of `up`.
  await until('nothing is left', async () => isClean() || undefined, leftMs).catch(() => undefined)
  check('processes', left().join(' '), '')
  check('worktrees', git('worktree', 'list').replace(/ .*/, ''), project)
  check('refs', git('for-each-ref', '--format=%(refname)'), 'refs/heads/main')
  check('folders of worktrees', existsSync(worktrees) ? readdirSync(worktrees).join(' ') : '', '')
  check(
    'records',
    existsSync(join(project, '.git/bellwether')) ? readdirSync(join(project, '.git/bellwether')).join(' ') : '',
    '',
  )
  check('git status', git('status', '--porcelain'), '')
  check('git fsck', git('fsck', '--no-dangling'), '')
  const lines = git('show', 'main:shared.txt').split('\n')
  const wanted = [...sharedText.trimEnd().split('\n'), ...ids]
  check('lines of the shared file', lines.toSorted().join(' '), wanted.toSorted().join(' '))
  for (const id of ids) {
    check(`the folder of ${id}`, git('show', `main:${id}.txt`), join(worktrees, id))
    const added = git('log', '--no-merges', '--format=%h', '--diff-filter=A', 'main', '--', `${id}.txt`).split('\n')
    check(`commits that add ${id}.txt`, String(added.length), '1')
  }
  // A commit of a task touches its own file and the shared one.
  for (const block of git('log', '--no-merges', '--name-only', '--format=%x00%s', `${base}..main`)
    .split('\0')
    .slice(1)) {
    const [subject = '', ...names] = block.split('\n').filter((line) => line !== '')
    const id = /^(T-\d+)/.exec(subject)?.[1] ?? ''
    const foreign = names.filter((name) => name !== `${id}.txt` && name !== 'shared.txt')
    if (foreign.length > 0) violations.push(`"${subject}" changes ${foreign.join(' ')}`)
  }
  return violations
}

const stateOf = (project: string, state: string) => dataFolderOf(project, { XDG_STATE_HOME: state })
