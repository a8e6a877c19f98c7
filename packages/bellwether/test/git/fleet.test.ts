/**
 * Several dispatchers run many tasks on one repository and are killed with SIGKILL at random moments. Afterwards every accepted change is on
 * the base exactly once, and nothing else is left.
 */
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorMessage, systemClock, systemRandom } from '@bellwether/base'
import { expect, it, onTestFinished } from 'vitest'
import { openBoard } from '../../src/board/log/board.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { newRepository, temporaryFolder } from '../support/git-repository.js'
import { quietLog } from '../support/quiet-log.js'
import { runCli, type Cli } from '../support/process.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'
import { openTasks } from './up-fleet.js'

const load = thorough ? { tasks: 60, processes: 4, kills: 30 } : { tasks: 5, processes: 2, kills: 3 }

// Every task writes a file of its own and a line of a shared file, so that merges conflict. The agent resolves a conflict by keeping both sides.
const agent = `#!/bin/sh
id=$(sed -n 's/^Task //p' | head -n 1)
export GIT_AUTHOR_NAME=agent GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=agent GIT_COMMITTER_EMAIL=a@b
git merge -q main > /dev/null 2>&1 || {
  sed -i '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' shared.txt
  git add -A && git commit -q -m "merge main"
} > /dev/null 2>&1
grep -q "^$id\\$" shared.txt || echo "$id" >> shared.txt
echo "$id" > "$id.txt"
pwd >> "$LOG_OF_FOLDERS"
echo "{\\"files\\": [\\"$id.txt\\", \\"shared.txt\\"]}"
`

/** A sequence that looks random and is the same in every run with the same seed. */
function chances(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state / 2 ** 31
  }
}

it(
  `${load.tasks} tasks of ${load.processes} dispatchers on one repository, with ${load.kills} kills, reach the base exactly once and leave nothing behind`,
  { timeout: 900_000 },
  async () => {
    const repository = await newRepository({ 'shared.txt': 'start\n', '.gitignore': 'state/\nconfig/\n' })
    const home = await temporaryFolder()
    const script = join(home, 'agent.sh')
    const folders = join(home, 'folders')
    writeFileSync(script, agent, { mode: 0o755 })
    const rule = { maxAttempts: 500, cooldownSec: 0 }
    repository.write('config/workspace-policy.json', JSON.stringify({ workspace: 'worktree', merge: 'auto' }))
    repository.write(
      'config/recovery-policy.json',
      JSON.stringify({
        default: rule,
        recoveryChain: 'abcdefghijklmno'.split(''),
        reasonPolicies: { merge_conflict: rule },
      }),
    )
    repository.write('config/budget-policy.json', JSON.stringify({ global: { maxTaskRetries: 1_000 } }))
    const ids = Array.from({ length: load.tasks }, (_, at) => `T-${at + 1}`)
    const board = await openBoard({
      root: repository.path,
      owner: 'test',
      clock: systemClock,
      ids: uuidv7(systemClock, systemRandom),
      log: quietLog,
    })
    await board.write(() =>
      ids.map((taskId) => ({
        taskId,
        type: 'task_created',
        actor: 'test',
        payload: { title: `Write ${taskId}`, verify: [`test -s ${taskId}.txt && ! grep -q '^<<<<<<<' shared.txt`] },
      })),
    )
    const env = {
      XDG_STATE_HOME: home,
      LOG_OF_FOLDERS: folders,
      BELLWETHER__BOARD__SPAWN_GRACE_SECONDS: '4',
      BELLWETHER__BOARD__CLAIM_LEASE_SECONDS: '4',
    }
    const running = new Set<Cli>()
    onTestFinished(async () => {
      for (const cli of running) cli.signal('SIGKILL')
      await Promise.all([...running].map((cli) => cli.ended))
      await board.close()
    })
    const start = () => {
      const args = ['task', 'dispatch', '--max', '500', '--env', 'LOG_OF_FOLDERS', '--command', script]
      const cli = runCli(args, { cwd: repository.path, env })
      running.add(cli)
      void cli.ended.then(() => running.delete(cli))
      return cli
    }
    const done = async () => [...(await board.sync()).tasks.values()].filter(({ status }) => status === 'done').length
    const chance = chances(7)
    let kills = 0
    let killAt = 0
    await until(
      'all tasks are done',
      async () => {
        while (running.size < load.processes) start()
        const { eventCount } = await board.sync()
        if (killAt === 0) killAt = eventCount + 3
        // At a random moment after some lines of the log, a random process dies.
        if (kills < load.kills && eventCount >= killAt) {
          const victims = [...running]
          victims[Math.floor(chance() * victims.length)]?.signal('SIGKILL')
          kills += 1
          killAt = eventCount + 2 + Math.floor(chance() * ((load.tasks * 6) / load.kills))
        }
        return (await done()) === load.tasks ? true : undefined
      },
      800_000,
    ).catch((error: unknown) => {
      throw new Error(`${errorMessage(error)}; open: ${openTasks(board.state)}`, { cause: error })
    })
    for (const cli of running) cli.signal('SIGKILL')
    await Promise.all([...running].map((cli) => cli.ended))
    // One more start adopts what the killed processes left.
    const last = runCli(['task', 'dispatch', '--command', script], { cwd: repository.path, env })
    await last.ended
    expect(kills).toBeGreaterThan(0)
    const inWorktrees = () =>
      readdirSync('/proc').flatMap((pid) => {
        try {
          return readlinkSync(`/proc/${pid}/cwd`).startsWith(home) ? [pid] : []
        } catch {
          return [] // not a process, or it has ended
        }
      })
    await until('no process is left', async () => (inWorktrees().length === 0 ? true : undefined))
    expect(repository.git('worktree', 'list').split('\n')).toHaveLength(1)
    expect(repository.git('for-each-ref', '--format=%(refname)')).toBe('refs/heads/main')
    expect(repository.git('status', '--porcelain')).toBe('')
    expect(repository.git('fsck', '--no-dangling')).toBe('')
    const shared = readFileSync(join(repository.path, 'shared.txt'), 'utf8').trim().split('\n')
    expect(shared.toSorted()).toEqual(['start', ...ids].toSorted())
    for (const id of ids) {
      expect(repository.git('show', `main:${id}.txt`)).toBe(id)
      expect(
        repository.git('log', '--format=%an', '--diff-filter=A', 'main', '--', `${id}.txt`).split('\n'),
      ).toHaveLength(1)
    }
    // No task worked in the project folder or in the worktree of another one.
    const used = new Set(readFileSync(folders, 'utf8').trim().split('\n'))
    expect(used.size).toBe(load.tasks)
    expect([...used].every((folder) => folder.startsWith(home))).toBe(true)
  },
)
