/** Board, health and files of the fixture data. */
import type { Component, FoundFiles, Health, TaskBudget, TaskDetail, TurnChanges } from '../../src/api/types.js'
import { componentOf, taskOf } from './samples.js'
import { attack, jobs, turnId, type At, type Say } from './strings.js'

export function tasksOf(at: At, say: Say): TaskDetail[] {
  const titles = [
    'Upgrade the payment library',
    'Write the migration guide',
    'Fix the flaky login test',
    'Draft the incident report',
    'Translate the help pages',
    'Measure cold start',
    'Clean up old branches',
    'Review the new API',
  ]
  const statuses = [
    'pending',
    'in_progress',
    'blocked',
    'review',
    'done',
    'failed',
    'claimed',
    'pending',
    'in_progress',
    'done',
    'blocked',
    'done',
  ] as const
  return statuses.map((status, number) => {
    const isPerson = status === 'review' || number === 2
    const task = taskOf({
      taskId: number === 5 ? say(`T-${number}`).slice(0, 200) : `T-${number + 1}`,
      title: say(titles[number % titles.length]!),
      status,
      priority: (number * 3) % 5,
      impact: number % 3,
      assignee: status === 'pending' ? null : say(jobs[number % jobs.length]!),
      reason:
        status === 'failed' || status === 'blocked'
          ? say('incomplete_output: claimed file /report.md is missing')
          : null,
      dependencies: number === 7 ? ['T-1'] : [],
      createdAt: at(-9_000 + number),
      updatedAt: at(-300 * number),
      waitsFor:
        number === 7
          ? 'it waits for T-1, which is pending'
          : status === 'review'
            ? 'it waits for a review'
            : status === 'blocked'
              ? number === 2
                ? say('claimed file /report.md is missing')
                : 'debugger may try again at 12:00'
              : status === 'in_progress'
                ? 'coder is at it since 11:58'
                : null,
      waitCode: isPerson
        ? status === 'review'
          ? 'review'
          : 'person'
        : status === 'blocked'
          ? 'cooldown'
          : status === 'in_progress'
            ? 'open_run'
            : null,
      waitUntil: status === 'review' ? at(80_000) : status === 'blocked' ? at(number === 2 ? 5_000 : 90) : null,
      recovery:
        status === 'blocked'
          ? {
              reasonCode: 'incomplete_output',
              attempt: 2,
              maxAttempts: 3,
              nextAssignee: number === 2 ? 'human' : 'debugger',
              action: number === 2 ? 'escalate' : 'retry',
              recoveryState: number === 2 ? 'escalated_to_human' : 'recovery_scheduled',
              cooldownUntilTs: 0,
              deadlineTs: Date.parse(at(5_000)) / 1_000,
              reminders: 0,
            }
          : null,
      budget: status === 'pending' ? null : budgetOf(number),
      costMicros: status === 'pending' ? null : 31_000 * number,
      problem: status === 'blocked' ? say('verify command exited with 1: npm test (not ok 3 - login)') : null,
      changedFiles: status === 'done' || status === 'review' || status === 'blocked' ? 2 : null,
      nextStep: nextStepOf(status, isPerson, at(status === 'review' ? 80_000 : 90)),
      next: number === 0 ? { place: 1, of: 2, assignee: 'coder', why: 'of 2 that are ready it comes first' } : null,
    })
    const runs = [
      {
        runId: 'r1',
        agent: say('coder'),
        startedAt: at(-900),
        agentTurnId: turnId(4),
        endedAt: at(-800),
        outcome: 'success',
        tokenUsage: 5_400,
        elapsedMs: 100_000,
        costMicros: 18_000,
        turnStatus: 'success',
      },
    ]
    const fields = { instruction: say('Do it well.'), verify: ['npm test'] }
    if (status === 'done') return { ...task, runs, fields, ...judged(status, say), failure: null, moves: [] }
    return { ...task, runs, fields, ...(isPerson || status === 'blocked' ? judged(status, say) : calm) }
  })
}

function nextStepOf(status: string, isPerson: boolean, at: string): TaskDetail['nextStep'] {
  if (isPerson) return { what: 'person', who: null, at, text: `A person decides. The next reminder is at ${at}.` }
  if (status === 'blocked')
    return { what: 'retry', who: 'debugger', at, text: `debugger tries again at ${at}, after 2 of 3 attempts failed.` }
  return { what: status === 'pending' ? 'run' : 'wait', who: 'coder', at: null, text: 'coder runs it next.' }
}

const calm = { result: null, failure: null, changes: null, moves: [] }

/** A task whose last run was not accepted, or waits for a review. */
function judged(status: string, say: Say): Pick<TaskDetail, 'result' | 'failure' | 'changes' | 'moves'> {
  const move = (action: TaskDetail['moves'][number]['action'], effect: string) => ({
    action,
    effect,
    command: `bellwether task ${action} T-3`,
  })
  const retry = move('retry', 'coder tries again now, and gets what failed')
  const done = move('done', 'you did the work yourself: its checks run, and if they pass, it is done')
  return {
    result: say('The loop kept only the last line; it adds now.'),
    failure:
      status === 'review'
        ? null
        : {
            runId: 'r1',
            agent: 'coder',
            agentTurnId: turnId(4),
            reasonCode: 'incomplete_output',
            reason: say('verify command exited with 1: npm test (not ok 3 - login)'),
            files: [{ path: say('report.md'), problem: 'is claimed but does not exist' }],
            checks: [
              {
                check: 'npm test',
                problem: 'exited with 1',
                exitCode: 1,
                durationMs: 2_310,
                output: say(
                  'ok 1 - total\nok 2 - basket\nnot ok 3 - login\n  expected: 797\n  actual: 297\n# tests 3\n# fail 1',
                ),
                note: 'It ran in a sandbox. If it needs the home folder, add "sandbox": "none" to the check.',
              },
            ],
          },
    changes: { runId: 'r1', ...changesOf(say) },
    moves: [retry, done, move('abort', 'it ends as failed')],
  }
}

/** What a run or turn changed. */
export const changesOf = (say: Say): TurnChanges => ({
  commit: '4f5c1d2a9b8e7f60514233445566778899aabbcc',
  files: [
    { path: say('src/total.mjs'), change: 'changed', claimed: true },
    { path: 'notes.txt', change: 'added', claimed: false },
  ],
  moreFiles: 0,
  diff: say(
    '--- a/src/total.mjs\n+++ b/src/total.mjs\n@@ -1,5 +1,5 @@\n export function total(basket) {\n   let cents = 0\n-  for (const { price, count } of basket) cents = price * count\n+  for (const { price, count } of basket) cents += price * count\n   return cents\n }',
  ),
  isCut: false,
  note: null,
})

function budgetOf(number: number): TaskBudget {
  const tokenUsage = 1_500 * (number + 1)
  return {
    agent: 'coder',
    tokenUsage,
    inputTokens: tokenUsage - 500,
    outputTokens: 400,
    cacheReadTokens: 40_000 * number,
    cacheWriteTokens: 100,
    costMicros: 31_000 * number,
    elapsedMs: 60_000 * number,
    retryCount: 1,
    exceededCount: 0,
    limits: { maxTaskTokens: 12_000, maxTaskCostUsd: 20, maxTaskWallTimeSec: null, maxTaskRetries: 3 },
    nearest:
      number % 5 === 1
        ? { unit: 'runs', used: 1, limit: 3, fraction: 1 / 3 }
        : { unit: 'tokens', used: tokenUsage, limit: 12_000, fraction: tokenUsage / 12_000 },
  }
}

export function healthOf(at: At, say: Say): Health {
  const unit = (kind: string, name: string, state: Component['state'], more: Partial<Component> = {}) =>
    componentOf({ kind, name, state, ...more })
  return {
    summary: { status: 'degraded', units: 6, restarts: 2, changes: 4, troubled: {} },
    components: [
      unit('part', 'worker default', 'ok', { status: 'ready', pid: 4_711, since: at(-4_000) }),
      unit('part', 'worker coding', 'degraded', {
        status: 'waiting',
        because: 'it ended and is started again',
        restarts: 2,
        last_end: say('signal SIGKILL'),
        next_start_at: at(4),
      }),
      unit('part', 'worker gpu', 'failed', {
        status: 'quarantined',
        because: 'it fails again and again: in quarantine, and tried ever more rarely',
        restarts: 5,
        last_end: 'exit code 1',
      }),
      unit('source', 'host-a:/mnt/data', 'failed', { error: say('inotify: too many watches'), restarts: 2 }),
      unit('sensor_pipe', 'host-a', 'failed', {
        because: 'source:host-a:/mnt/data',
        depends_on: ['source:host-a:/mnt/data'],
      }),
      unit('receiver', 'http', 'ok'),
      unit('fusion_pipe', 'shared', 'ok', { depends_on: ['receiver:http'] }),
      unit('view', 'shared', 'ok', { depends_on: ['fusion_pipe:shared'] }),
      unit('sender', 'host-b', 'ok'),
    ],
  }
}

export type FileEntry = Omit<FoundFiles['results'][number], 'source_id'>

export function folderOf(path: string, nowMs: number, hostile: boolean): FileEntry[] {
  const entry = (content_type: FileEntry['content_type'], name: string, more: Partial<FileEntry> = {}): FileEntry => ({
    name,
    path: path === '/' ? `/${name}` : `${path}/${name}`,
    content_type,
    size: content_type === 'file' ? 1_234 : 0,
    modified_time: nowMs / 1_000 - (content_type === 'file' ? 400 : 4_000),
    created_time: null,
    integrity_suspect: false,
    agent_missing: false,
    last_agent_id: null,
    source_uri: null,
    ...more,
  })
  const file = (name: string, more?: Partial<FileEntry>) => entry('file', name, more)
  if (path === '/many')
    return Array.from({ length: 5_000 }, (_, number) => file(`file-${String(number).padStart(5, '0')}.txt`))
  if (path !== '/')
    return [
      file('login.ts'),
      file('login.test.ts', { integrity_suspect: true }),
      file('vendor.ts', { agent_missing: true }),
    ]
  return [
    entry('directory', 'src'),
    entry('directory', 'many'),
    entry('directory', 'docs', { audit_skipped: true }),
    file('README.md'),
    file('report.md', { integrity_suspect: true }),
    ...(hostile ? [file(`${attack.replaceAll('/', '∕')}\udcff`)] : []),
  ]
}
