import fc from 'fast-check'
import { expect, it } from 'vitest'
import { taskLine } from './snapshot.js'
import { taskStatuses, type Run, type Task } from '../task.js'

it('writes a task as JSON.stringify would', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('', '"', '\\', '\u007f', '\ud800', 'ü', '</script>'),
  )
  const run: fc.Arbitrary<Run> = fc
    .record(
      {
        runId: text,
        agent: text,
        startedAt: text,
        agentTurnId: text,
        endedAt: text,
        outcome: text,
        reasonCode: text,
        tokenUsage: fc.nat(),
        elapsedMs: fc.nat(),
      },
      { requiredKeys: ['runId', 'agent', 'startedAt'] },
    )
    .map((one) => JSON.parse(JSON.stringify(one)) as Run)
  const finite = fc.double({ noNaN: true, noDefaultInfinity: true })
  const task: fc.Arbitrary<Task> = fc.record({
    taskId: text,
    title: text,
    status: fc.constantFrom(...taskStatuses),
    priority: finite,
    impact: finite,
    dependencies: fc.array(text, { maxLength: 2 }),
    assignee: fc.option(text),
    reason: fc.option(text),
    createdAt: text,
    updatedAt: text,
    runs: fc.array(run, { maxLength: 2 }),
    fields: fc.dictionary(text, fc.jsonValue(), { maxKeys: 3 }),
  })
  fc.assert(
    fc.property(task, (one) => {
      expect(taskLine(one)).toBe(`${JSON.stringify(one.taskId)}:${JSON.stringify(one)}`)
    }),
    { numRuns: 2000 },
  )
})
