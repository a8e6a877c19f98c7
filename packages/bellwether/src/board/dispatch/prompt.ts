/**
 * Builds the prompt for a task. Bounded; the task comes first, unchanged; notes from earlier runs are marked as such. Pure.
 */
import { spawnOf } from './report.js'
import { textField } from '../tasks/task-fields.js'
import { commandText, commandsFor, requirementsFor, roleOf, type AcceptancePolicy } from '../policies/acceptance.js'
import type { Task } from '../log/task.js'

// A tenth of a small model's context window; longer instructions belong into a file that the task names.
const promptMax = 32_000
const reasonMax = 2_000

export interface PromptParts {
  readonly task: Task
  readonly policy: AcceptancePolicy
  readonly hints: string
  /** The budget is low: only the task itself. */
  readonly reduced: boolean
}

export function promptFor({ task, policy, hints, reduced }: PromptParts): string {
  const requirements = requirementsFor(policy, roleOf(task))
  const commands = commandsFor(policy, task)
  const last = spawnOf(task)
  const sections = [
    `# ${task.title}\n\nTask ${task.taskId}`,
    textField(task, 'instruction') ?? textField(task, 'description') ?? '',
    [
      'When you are done, answer with one JSON object: {"summary": "…", "files": ["path", …]}.',
      'List every file that you created or changed, relative to the task root. Each file is checked; a missing file does not count.',
      ...(requirements.fields.length > 0 ? [`The object must have: ${requirements.fields.join(', ')}.`] : []),
      ...(commands.length > 0
        ? ['These commands must pass:', ...commands.map(({ command }) => `- ${commandText(command)}`)]
        : []),
      'If you cannot continue, answer {"status": "blocked", "reason": "…"}.',
    ].join('\n'),
    ...(reduced || last === null || last.reasonCode === null
      ? []
      : [
          `The last run (${last.agent}) was not accepted: ${[last.reasonCode, last.error].filter(Boolean).join(': ').slice(0, reasonMax)}`,
        ]),
    ...(reduced || hints === '' ? [] : [hints]),
  ]
  const text = sections.filter((section) => section !== '').join('\n\n')
  return text.length <= promptMax ? text : `${text.slice(0, promptMax)}\n\n[truncated]`
}
