/**
 * Finishes a task for a person. The files they name are inspected and the task's commands must pass, as for an agent, except
 * that files need not have changed. With `unchecked` nothing is inspected, and the line records no evidence.
 */
import { defined } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Dispatcher } from './dispatcher.js'
import { collectEvidence } from './evidence/collect-evidence.js'
import { finishTask } from '../tasks/task-commands.js'
import { taskIn } from '../tasks/find-task.js'
import { lastLine } from '../tasks/last-failure.js'
import { accept } from '../policies/acceptance.js'
import { human } from '../policies/recovery.js'
import type { TaskEvent } from '../log/task.js'

export interface DoneInput {
  readonly by: string
  readonly files?: readonly string[]
  readonly note?: string
  readonly unchecked?: boolean
}

export async function finishChecked(
  dispatcher: Dispatcher,
  taskId: string,
  { by, files = [], note, unchecked = false }: DoneInput,
): Promise<readonly TaskEvent[]> {
  const { board, clock } = dispatcher
  const ports = { board, nowMs: () => clock.wallMs() }
  const task = taskIn(await board.sync(), taskId)
  if (unchecked) return finishTask(ports, taskId, by, { evidence: null, ...defined({ note }) })
  const policies = await dispatcher.policies()
  const deliverable = { summary: note ?? `done by ${by}`, files: [...files] }
  // Acceptance applies the rules for a person, whatever the role of the task is.
  const byPerson = { ...task, fields: { ...task.fields, role: human } }
  const findings = await collectEvidence(dispatcher, policies, byPerson, deliverable)
  const seen = findings.files.map((file) => ({ ...file, changedSince: true }))
  const judgement = accept(policies.acceptance, byPerson, deliverable, { ...findings, files: seen })
  if (judgement.verdict === 'done')
    return finishTask(ports, taskId, by, { evidence: judgement.evidence, ...defined({ note }) })
  const checks = judgement.verdict === 'wait' ? [] : judgement.problems.checks
  const reasons = judgement.reasons.map((reason) => {
    const line = lastLine(checks.find(({ check }) => reason.endsWith(`: ${check}`))?.output ?? '')
    return line === '' ? reason : `${reason} (${line})`
  })
  throw new InvalidInput(`Cannot finish task "${taskId}": ${reasons.join('; ')}.`, {
    code: 'incomplete_output',
    hint: `${checks.flatMap(({ note }) => (note === null ? [] : [`${note} `])).join('')}Fix that, or skip the checks with bellwether task done ${taskId} --unchecked.`,
  })
}
