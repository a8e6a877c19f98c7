/**
 * A person says that a task is done. Always: what they name is looked at and the task's commands must pass, as with an agent;
 * only that files must be fresh is not asked of a person. They may vouch for it unchecked, and the line says so.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { Dispatcher } from './dispatcher.js'
import { collectEvidence } from './collect-evidence.js'
import { finishTask } from '../tasks/task-commands.js'
import { taskIn } from '../tasks/operator-commands.js'
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
  word: DoneInput,
): Promise<readonly TaskEvent[]> {
  const { by, files = [], note } = word
  const { board, clock } = dispatcher
  const ports = { board, nowMs: () => clock.wallMs() }
  const told = note === undefined ? {} : { note }
  const task = taskIn(await board.sync(), taskId)
  if (word.unchecked === true) return finishTask(ports, taskId, by, { evidence: null, ...told })
  const policies = await dispatcher.policies()
  const deliverable = { summary: note ?? `done by ${by}`, files: [...files] }
  // Judged as a person's work, whatever role the agents had.
  const asked = { ...task, fields: { ...task.fields, role: human } }
  const findings = await collectEvidence(dispatcher, policies, asked, deliverable)
  const seen = findings.files.map((file) => ({ ...file, changedSince: true }))
  const judgement = accept(policies.acceptance, asked, deliverable, { ...findings, files: seen })
  if (judgement.verdict === 'done') return finishTask(ports, taskId, by, { evidence: judgement.evidence, ...told })
  throw new InvalidInput(`${taskId} is not done: ${judgement.reasons.join('; ')}`, {
    code: 'incomplete_output',
    hint: 'mend that, or vouch for it yourself: bellwether task done ID --unchecked',
  })
}
