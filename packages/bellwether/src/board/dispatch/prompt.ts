/**
 * What an agent is told about a task. Always: bounded; the task comes first and in its own words; what earlier runs left is
 * marked as what it is. Pure.
 */
import { spawnOf } from './report.js'
import { textField } from '../tasks/task-fields.js'
import { commandText, commandsFor, requirementsFor, roleOf, type AcceptancePolicy } from '../policies/acceptance.js'
import type { Task } from '../log/task.js'

// A tenth of a small model's window; whoever has more to say puts it into a file and names it.
const promptMax = 32_000
const reasonMax = 2_000

export interface PromptParts {
  readonly task: Task
  readonly policy: AcceptancePolicy
  readonly hints: string
  /** The budget is short: only the task itself. */
  readonly reduced: boolean
}

export function promptFor({ task, policy, hints, reduced }: PromptParts): string {
  const owed = requirementsFor(policy, roleOf(task))
  const commands = commandsFor(policy, task)
  const last = spawnOf(task)
  const sections = [
    `# ${task.title}\n\nTask ${task.taskId}`,
    textField(task, 'instruction') ?? textField(task, 'description') ?? '',
    [
      'When you are done, answer with one JSON object: {"summary": "…", "files": ["path", …]}.',
      'List every file you made or changed, relative to the task root: each is looked at, and what is not there does not count.',
      ...(owed.fields.length > 0 ? [`It must have: ${owed.fields.join(', ')}.`] : []),
      ...(commands.length > 0
        ? ['These commands must pass:', ...commands.map(({ command }) => `- ${commandText(command)}`)]
        : []),
      'If you cannot go on, answer {"status": "blocked", "reason": "…"}.',
    ].join('\n'),
    ...(reduced || last === null || last.reasonCode === null
      ? []
      : [
          `The last try (${last.agent}) was not accepted: ${[last.reasonCode, last.error].filter(Boolean).join(': ').slice(0, reasonMax)}`,
        ]),
    ...(reduced || hints === '' ? [] : [hints]),
  ]
  const text = sections.filter((section) => section !== '').join('\n\n')
  return text.length <= promptMax ? text : `${text.slice(0, promptMax)}\n\n[cut: the rest was too long]`
}
