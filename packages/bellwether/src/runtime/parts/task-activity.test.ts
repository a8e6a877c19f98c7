import { expect, it } from 'vitest'
import { Fold } from '../../board/log/fold/fold.js'
import type { EventType } from '../../board/log/task.js'
import { defaultRecovery, recover, recoveryPayload } from '../../board/policies/recovery.js'
import { followTasks } from './task-activity.js'

const rules = { firstAgent: 'coder', recovery: defaultRecovery }

/** A board with one task that is claimed, started and rejected, and what each look says about it. */
function followedTask() {
  const fold = new Fold()
  const look = followTasks()
  let made = 0
  const append = (type: EventType, payload: object) => {
    made += 1
    const at = new Date(made * 1_000).toISOString()
    const line = { eventId: `e${made}`, taskId: 'T', type, messageType: '', actor: 'up', at, payload }
    const bytes = Buffer.from(JSON.stringify(line))
    expect(fold.take(bytes, 0, bytes.length, 0)).toBeUndefined()
  }
  append('task_created', { title: 'T' })
  const task = () => fold.state().tasks.get('T')!
  return {
    claim: () =>
      append('task_claimed', {
        assignee: 'coder',
        claim: { id: 'c', by: 'up', since: new Date(0).toISOString(), until: new Date(1e9).toISOString() },
      }),
    start: () => append('task_started', { run: { agent: 'coder' }, claim: null }),
    reject() {
      const reasonCode = 'incomplete_output'
      const failure = { taskId: 'T', reasonCode, assignee: 'coder' }
      const { entry } = recover(defaultRecovery, undefined, failure, 0)
      const spawn = { agent: 'coder', error: 'no file' }
      const { runId } = task().runs.at(-1)!
      append('task_blocked', { runId, outcome: 'failed', reasonCode, spawn, ...recoveryPayload(task(), entry) })
    },
    look: () => look(fold.state(), made * 1_000, rules).map(({ change }) => change),
  }
}

it('says once that a run was not accepted, whenever it reads the board', () => {
  const steps = ['claim', 'start', 'reject', 'claim', 'start', 'reject'] as const
  for (let looks = 0; looks < 2 ** (steps.length - 1); looks += 1) {
    const task = followedTask()
    task.look()
    const changes = steps.flatMap((step, at) => {
      task[step]()
      return at === steps.length - 1 || (looks & (1 << at)) !== 0 ? task.look() : []
    })
    expect([looks, changes]).toEqual([looks, ['started', 'ended', 'started', 'ended']])
  }
})
