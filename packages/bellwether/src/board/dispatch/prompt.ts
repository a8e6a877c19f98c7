/**
 * Builds the prompt for a task. Bounded; the task comes first, unchanged; notes from earlier runs are marked as such. Pure.
 */
import { spawnOf, type SpawnReport } from './report.js'
import { feedbackText } from '../tasks/feedback.js'
import { failureOf } from '../tasks/last-failure.js'
import { textField, type TaskWorktree } from '../tasks/task-fields.js'
import { type AcceptancePolicy } from '../policies/acceptance-policy.js'
import { commandText, commandsFor, requirementsFor, roleOf } from '../policies/acceptance.js'
import type { Task } from '../log/task.js'

// A tenth of a small model's context window; longer instructions belong in a file that the task names.
const promptMax = 32_000
const reasonMax = 2_000
// Part of the turn's payload, which has 64 KiB.
const resumePromptMax = 8_000

export interface PromptParts {
  readonly task: Task
  readonly policy: AcceptancePolicy
  readonly hints: string
  /** The budget is low: only the task itself. */
  readonly reduced: boolean
  /** Where the run works; null: in the project folder. */
  readonly worktree?: TaskWorktree | null
}

export function promptFor({ task, policy, hints, reduced, worktree = null }: PromptParts): string {
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
    ...(worktree === null
      ? []
      : [
          `You work in a git worktree of your own, on the branch ${worktree.branch}, made from ${worktree.base}. Stay on this branch and in this folder. What you do not commit is committed for you.`,
        ]),
    ...(reduced || last === null || last.reasonCode === null
      ? []
      : [`The last run (${last.agent}) was not accepted: ${whyOf(last)}`, ...checkOutputs(task)]),
    feedbackText(task) ?? '',
    ...(reduced || hints === '' ? [] : [hints]),
  ]
  return bounded(sections)
}

/**
 * The prompt of a run that resumes the session of an earlier run of the same agent, which contains the task: what failed, and what to do next.
 * Undefined if no run has failed and no person wrote about it.
 */
export function resumePromptFor(task: Task): string | undefined {
  const last = spawnOf(task)
  const feedback = feedbackText(task)
  const isRejected = last !== null && last.reasonCode !== null
  if (!isRejected && feedback === undefined) return undefined
  return bounded(
    [
      ...(isRejected
        ? [
            `The last run of task ${task.taskId} (${last.agent}) was not accepted: ${whyOf(last)}`,
            ...checkOutputs(task),
          ]
        : []),
      feedback ?? '',
      'Find the cause in the current state of the files, correct it, and answer with the same JSON object as before.',
    ],
    resumePromptMax,
  )
}

const whyOf = ({ reasonCode, error }: SpawnReport) => [reasonCode, error].filter(Boolean).join(': ').slice(0, reasonMax)

function bounded(sections: readonly string[], max = promptMax): string {
  const text = sections.filter((section) => section !== '').join('\n\n')
  return text.length <= max ? text : `${text.slice(0, max).toWellFormed()}\n\n[truncated]`
}

/** What the failed checks printed: data, marked as such by its fence. */
function checkOutputs(task: Task): string[] {
  return (failureOf(task)?.checks ?? [])
    .filter(({ output }) => output !== '')
    .map(({ check, problem, output }) => {
      const fence = '`'.repeat(Math.max(3, ...[...output.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)))
      return `The end of the output of ${check}, which ${problem}:\n${fence}\n${output}\n${fence}`
    })
}
