/**
 * One task as text for a terminal: its state, why its last run was not accepted (files, checks with their output, result, diff), what
 * happens next and what a person can type. Everything that agents and checks printed is sanitized.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { duration, moneySpent, reasonInWords, taskLimits, tokensSpent } from '@bellwether/protocol'
import type { BoardTaskDetail, EventOf, ResponseOf, TaskChanges, TaskFailure } from '@bellwether/protocol/http'
import type { TaskView } from '../../../board/tasks/task-view.js'
import type { TaskEvent, TaskHistory } from '../../../board/log/task.js'
import { block, plain } from '../../../client/sanitize.js'
import { facts, instant, table } from '../../shared/terminal.js'
import { asTyped } from '../../shared/output.js'

export type ShownTask = (TaskView & Pick<BoardTaskDetail, 'budget'>) | BoardTaskDetail
export type History = TaskHistory | ResponseOf<'GET /board/tasks/:task/history'>

// About one screen.
const diffLinesMax = 40

export interface TaskTextOptions {
  readonly wholeDiff?: boolean
  /** The task root; undefined: a server has the task. */
  readonly root?: string | undefined
}

export function taskText(
  view: ShownTask,
  { createdBy, events, left }: History,
  { wholeDiff = false, root }: TaskTextOptions = {},
): string {
  const isDone = view.status === 'done'
  const { workspaceNote } = view.fields
  const details = facts([
    ['status', `${view.status}${view.reason === null ? '' : ` (${reasonInWords(view.reason)})`}`],
    ['waits for', view.waitsFor ?? (isDone ? '– (done)' : '– (ready)')],
    ...(view.problem === null ? [] : [['problem', view.problem] as const]),
    ...(isDone ? [] : [['next', view.nextStep.text] as const]),
    ...(typeof workspaceNote === 'string' ? [['workspace', `the project folder: ${workspaceNote}`] as const] : []),
    ['assignee', view.assignee ?? '–'],
    ['priority', `${view.priority}, impact ${view.impact}`],
    ['depends on', view.dependencies.join(', ') || '–'],
    ['spent', moneySpent(view)],
    ['tokens', view.budget === null ? '–' : tokensSpent(view.budget)],
    ['limits', (view.budget === null ? null : taskLimits(view.budget)) ?? '–'],
    ['created', `${view.createdAt}${createdBy === null ? '' : ` by ${createdBy}`}`],
    ['changed', view.updatedAt],
  ])
  const { instruction } = view.fields
  const runs = view.runs.map((run) => [
    instant(run.startedAt),
    run.agent,
    run.outcome ?? 'open',
    reasonInWords(run.reasonCode ?? ''),
    run.tokenUsage?.toLocaleString('en-US') ?? '',
    run.elapsedMs === undefined ? '' : duration(run.elapsedMs),
    run.agentTurnId ?? '',
  ])
  const lastTurn = view.runs.findLast((run) => run.agentTurnId !== undefined)?.agentTurnId
  const lines = events.map((event) => [
    event.at.slice(0, 19).replace('T', ' '),
    event.actor,
    event.type,
    aboutOf(event),
  ])
  const older = left === 0 ? '' : `\n… and ${left} older events (--events)`
  return [
    `${plain(view.taskId)}  ${plain(view.title)}\n${details}`,
    ...(typeof instruction === 'string' ? [block(instruction)] : []),
    ...(view.failure === null ? [] : failureText(view.failure)),
    ...(isDone || view.result === null ? [] : [`Result of the last run:\n${indented(view.result)}`]),
    ...(view.changes === null || isDone ? [] : [changesText(view.changes, wholeDiff)]),
    ...(view.moves.length === 0 || view.nextStep.what === 'run'
      ? []
      : [`You can:\n${facts(view.moves.map(({ command, effect }) => [asTyped(command), effect] as const))}`]),
    ...(runs.length === 0 ? [] : [table(runHeadings, runs, process.stdout.columns, [6])]),
    ...(lastTurn === undefined ? [] : [whereWork(plain(lastTurn), root)]),
    ...(lines.length === 0 ? [] : [`${table(['AT', 'BY', 'EVENT', 'ABOUT'], lines, process.stdout.columns)}${older}`]),
  ].join('\n\n')
}

/** A run of `task dispatch --command` is not a turn: what it printed is in a file. */
function whereWork(turn: string, root: string | undefined): string {
  const file = `state/runs/${turn}/output`
  return root !== undefined && existsSync(join(root, file))
    ? `What the agent printed: ${file}`
    : asTyped(`What the agent did: bellwether turn show ${turn} --transcript`)
}

const runHeadings = ['STARTED', 'AGENT', 'OUTCOME', 'REASON', 'TOKENS', 'TIME', 'TURN']

const indented = (text: string) => block(text).replaceAll(/^/gm, '  ')

function failureText({ files, checks }: TaskFailure): string[] {
  const listed = files.map(({ path, problem }) => `  ${plain(path)} ${plain(problem)}`)
  return [
    ...(listed.length === 0 ? [] : [`Files that do not count:\n${listed.join('\n')}`]),
    ...checks.map(({ check, problem, durationMs, output, note }) => {
      const heading = `Failed: ${plain(check)}\n  ${plain(problem)} after ${(durationMs / 1_000).toFixed(1)} s`
      const printed =
        output === '' ? `${heading} and printed nothing` : `${heading}; the end of its output:\n${indented(output)}`
      return note === null ? printed : `${printed}\n  ${plain(note)}`
    }),
  ]
}

function changesText({ commit, files, moreFiles, diff, isCut, note }: TaskChanges, isFull: boolean): string {
  const since = commit === null ? '' : ` since commit ${commit.slice(0, 12)}`
  const rows = files.map(({ path, change, claimed, before, after }) => {
    const versions = [before, after].map(
      (one) => one && `${one.bytes} bytes ${(one.sha256 ?? 'not hashed').slice(0, 12)}`,
    )
    const known = versions.filter((one) => one).join(' → ')
    const what = `${change === null ? '' : ` ${change}`}${known === '' ? '' : `: ${known}`}`
    return `  ${plain(path)}${what}${claimed ? '' : ' (not claimed)'}`
  })
  const more = moreFiles === 0 ? [] : [`  … and ${moreFiles} more`]
  const lines = diff === null || diff === '' ? [] : indented(diff).split('\n')
  const shown = isFull ? lines : lines.slice(0, diffLinesMax)
  const rest = lines.length - shown.length
  return [
    `Changed${since}:`,
    ...rows,
    ...more,
    ...(shown.length === 0 ? [] : ['', ...shown]),
    ...(rest > 0
      ? [`  … and ${rest} more lines (--diff)`]
      : isCut
        ? ['  … the diff was cut here; git diff shows the rest']
        : []),
    ...(note === null ? [] : [`  The diff is not shown: ${plain(note)}`]),
  ].join('\n')
}

/** What an event is about, in a few words. */
export function aboutOf({
  type,
  payload,
}: Pick<TaskEvent, 'type' | 'payload'> | EventOf<'GET /board/events', '*'>): string {
  const { reason, title, agentTurnId } = payload
  if (type === 'task_noted' && typeof agentTurnId === 'string') return `turn ${agentTurnId}`
  const word = typeof reason === 'string' ? reasonInWords(reason) : typeof title === 'string' ? title : undefined
  // A note without a text is described by its keys.
  return word ?? (type === 'task_noted' || type === 'board_control' ? Object.keys(payload).join(', ') : '')
}
