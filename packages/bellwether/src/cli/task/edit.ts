/** The verbs of `bellwether task` that change a task or the board by hand. */
import { readFile } from 'node:fs/promises'
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { InvalidArgumentError, type Command } from 'commander'
import { finishChecked } from '../../board/dispatch/finish.js'
import { addTask, blockTask, claimTask, retryTask } from '../../board/tasks/task-commands.js'
import {
  abort,
  approve,
  escalate,
  freeze,
  pause,
  requireApproval,
  resume,
  unfreeze,
  type OperatorInput,
} from '../../board/tasks/operator-commands.js'
import type { Spawner } from '../../board/ports.js'
import type { TaskEvent } from '../../board/log/task.js'
import type { TaskView } from '../../board/tasks/task-view.js'
import type { Client } from '../../client/client.js'
import { plain } from '../../client/sanitize.js'
import { openDispatcher } from '../../runtime/parts/board.js'
import { openEvidence } from '../../runtime/parts/remote-evidence.js'
import { collect } from '../options.js'
import { print as answer } from '../output.js'
import { readStdin } from '../stdin.js'
import { boardServer, onRoot, whoAmI, withCommon, type CommonFlags, type Opened } from './root.js'

interface AddFlags extends CommonFlags {
  readonly id?: string
  readonly instruction?: string
  readonly file?: string
  readonly priority?: number
  readonly impact?: number
  readonly after?: string[]
  readonly role?: string
  readonly agent?: string
  readonly verify?: string[]
  readonly review?: boolean
  readonly approval?: boolean
}

const instructionMaxBytes = 100_000

export function addCommand(task: Command): void {
  withCommon(task.command('add <title>'))
    .description('add a task')
    .option('--id <id>', 'its id (default: the next T-…)')
    .option('--instruction <text>', 'what is to be done')
    .option('--file <file>', 'read the instruction from a file; - for stdin')
    .option('--priority <n>', 'the higher the sooner', anyNumber)
    .option('--impact <n>', 'breaks ties between equal priorities', anyNumber)
    .option('--after <id>', 'only when this task is done; may be repeated', collect)
    .option('--role <name>', 'the role that does it, and whose evidence it owes')
    .option('--agent <name>', 'the agent that tries first')
    .option('--verify <command>', 'a command that must pass; may be repeated', collect)
    .option('--review', 'a person looks at it after it was accepted')
    .option('--approval', 'a person must approve it before it is dispatched')
    .action(async (title: string, flags: AddFlags) => {
      const instruction = await instructionOf(flags)
      const input = {
        title,
        ...(flags.id === undefined ? {} : { taskId: flags.id }),
        ...(instruction === undefined ? {} : { instruction }),
        ...(flags.priority === undefined ? {} : { priority: flags.priority }),
        ...(flags.impact === undefined ? {} : { impact: flags.impact }),
        ...(flags.after === undefined ? {} : { dependencies: flags.after }),
        ...(flags.role === undefined ? {} : { role: flags.role }),
        ...(flags.agent === undefined ? {} : { agent: flags.agent }),
        ...(flags.verify === undefined ? {} : { verify: flags.verify }),
        ...(flags.review === undefined ? {} : { review: flags.review }),
        ...(flags.approval === undefined ? {} : { requiresApproval: flags.approval }),
      }
      const server = boardServer(flags)
      if (server !== undefined) {
        const made = await server.ask<TaskView>('POST', '/board/tasks', { body: input })
        return answer(flags, { taskId: made.taskId, status: made.status }, () => `added ${plain(made.taskId)}`)
      }
      return onRoot(flags, 'write', async ({ operator: hands }) => {
        const taskId = await addTask(hands, input, whoAmI(flags))
        answer(flags, { taskId, status: 'pending' }, () => `added ${taskId}`)
      })
    })
}

async function instructionOf(flags: AddFlags): Promise<string | undefined> {
  if (flags.file === undefined) return flags.instruction
  if (flags.instruction !== undefined) {
    throw new InvalidInput('--instruction and --file cannot both be meant', { code: 'contradicting_options' })
  }
  try {
    const bytes = flags.file === '-' ? await readStdin(instructionMaxBytes) : await readFile(flags.file)
    if (bytes.length > instructionMaxBytes) throw new Error(`it is longer than ${instructionMaxBytes} bytes`)
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    const why = errorMessage(error)
    throw new InvalidInput(`the instruction cannot be read from ${flags.file}: ${why}`, { code: 'no_instruction' })
  }
}

function anyNumber(text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number)) return number
  throw new InvalidArgumentError('It must be a number.')
}

/** One change through a server, and the task as it stands then. */
function changed(server: Client, id: string, body: object): Promise<TaskView> {
  return server.ask<TaskView>('PATCH', `/board/tasks/${encodeURIComponent(id)}`, { body })
}

type Move = (opened: Opened, id: string, word: OperatorInput) => Promise<readonly TaskEvent[]>
interface ReasonFlags extends CommonFlags {
  readonly reason?: string
}

/** A verb that takes one task and perhaps a reason. */
function moveCommand(task: Command, name: string, description: string, past: string, move: Move): Command {
  return withCommon(task.command(`${name} <id>`))
    .description(description)
    .option('--reason <text>', 'why, for the log')
    .action(async (id: string, flags: ReasonFlags) => {
      const server = boardServer(flags)
      if (server !== undefined) {
        const body = { action: name.replace('-', '_'), ...(flags.reason === undefined ? {} : { reason: flags.reason }) }
        const { status, reason } = await changed(server, id, body)
        return answer(flags, { taskId: id, status, reason }, () => plain(`${id} ${past} (${status})`))
      }
      return onRoot(flags, 'look', async (opened) => {
        const reason = flags.reason === undefined ? {} : { reason: flags.reason }
        await move(opened, id, { by: whoAmI(flags), ...reason })
        const now = opened.board.state.tasks.get(id)
        const facts = { taskId: id, status: now?.status, reason: now?.reason }
        answer(flags, facts, () => `${id} ${past} (${now?.status ?? 'gone'})`)
      })
    })
}

export function moveCommands(task: Command): void {
  moveCommand(task, 'claim', 'take a task up yourself', 'is yours', ({ operator: hands }, id, { by }) =>
    claimTask(hands, id, by),
  )
  moveCommand(task, 'block', 'mark a task as blocked', 'is blocked', ({ operator: hands }, id, word) =>
    blockTask(hands, id, word),
  )
  moveCommand(
    task,
    'escalate',
    'hand a task to a person',
    'waits for a person',
    async ({ operator: hands, policies }, id, word) =>
      escalate({ ...hands, recovery: (await policies()).recovery }, id, word),
  )
  moveCommand(task, 'freeze', 'let nobody begin a task', 'is frozen', ({ operator: hands }, id, word) =>
    freeze(hands, id, word),
  )
  moveCommand(task, 'unfreeze', 'let a frozen task go on', 'may go on', ({ operator: hands }, id, word) =>
    unfreeze(hands, id, word),
  )
  moveCommand(task, 'approve', 'approve a task that needs it', 'is approved', ({ operator: hands }, id, word) =>
    approve(hands, id, word),
  )
  moveCommand(
    task,
    'require-approval',
    'let a task wait for an approval',
    'needs an approval',
    ({ operator: hands }, id, word) => requireApproval(hands, id, word),
  )
  moveCommand(task, 'abort', 'end a task as failed, and stop its turn', 'is aborted', ({ operator: hands }, id, word) =>
    abort(hands, id, word),
  )
}

export function doneCommand(task: Command): void {
  withCommon(task.command('done <id>'))
    .description('say that a task is done; its commands must pass')
    .option('--file <path>', 'a file that shows it, looked at and recorded; may be repeated', collect)
    .option('--note <text>', 'a word for the log')
    .option('--unchecked', 'vouch for it yourself: nothing is looked at')
    .action(async (id: string, flags: CommonFlags & { file?: string[]; note?: string; unchecked?: boolean }) => {
      const server = boardServer(flags)
      if (server !== undefined) {
        const { fields } = await changed(server, id, {
          action: 'done',
          ...(flags.file === undefined ? {} : { files: flags.file }),
          ...(flags.note === undefined ? {} : { reason: flags.note }),
          ...(flags.unchecked === undefined ? {} : { unchecked: flags.unchecked }),
        })
        const evidence = fields['evidence'] ?? null
        return answer(flags, { taskId: id, status: 'done', evidence }, () => `${plain(id)} is done`)
      }
      return onRoot(flags, 'look', async (opened) => {
        const { board, ids } = opened
        const dispatcher = openDispatcher(opened, {
          spawner: noSpawner,
          evidence: openEvidence(opened.settings, board.root, ids),
          actor: whoAmI(flags),
        })
        await finishChecked(dispatcher, id, {
          by: whoAmI(flags),
          ...(flags.file === undefined ? {} : { files: flags.file }),
          ...(flags.note === undefined ? {} : { note: flags.note }),
          ...(flags.unchecked === undefined ? {} : { unchecked: flags.unchecked }),
        })
        const evidence = board.state.tasks.get(id)?.fields['evidence'] ?? null
        answer(flags, { taskId: id, status: 'done', evidence }, () => `${id} is done`)
      })
    })
}

/** Nothing is spawned by those who only say that something is done. */
const noSpawner: Spawner = {
  kernel: async () => null,
  spawn: () => Promise.reject(new Error('nothing is spawned here')),
  status: async () => ({ status: 'unknown' }),
  ended: async () => ({ status: 'unknown' }),
  stop: async () => undefined,
}

export function retryCommand(task: Command): void {
  withCommon(task.command('retry <id>'))
    .description('let agents try a blocked or failed task again, from the first attempt')
    .option('--agent <name>', 'who is to try')
    .option('--fresh-budget', 'what was spent before does not count any more')
    .option('--reason <text>', 'why, for the log')
    .action(async (id: string, flags: ReasonFlags & { agent?: string; freshBudget?: boolean }) => {
      const words = {
        ...(flags.reason === undefined ? {} : { reason: flags.reason }),
        ...(flags.agent === undefined ? {} : { agent: flags.agent }),
        ...(flags.freshBudget === undefined ? {} : { freshBudget: flags.freshBudget }),
      }
      const told = ({ status, reason }: Pick<TaskView, 'status' | 'reason'>) =>
        answer(flags, { taskId: id, status, reason }, () => plain(`${id} may be tried again: ${reason ?? ''}`))
      const server = boardServer(flags)
      if (server !== undefined) return told(await changed(server, id, { action: 'retry', ...words }))
      return onRoot(flags, 'look', async ({ operator: hands, settings, board }) => {
        await retryTask({ ...hands, firstAgent: settings.first_agent }, id, { by: whoAmI(flags), ...words })
        told(board.state.tasks.get(id)!)
      })
    })
}

export function boardCommands(task: Command): void {
  const verbs = [
    ['pause', 'let nothing begin any more; what is under way goes on', pause, 'the board is paused'],
    ['resume', 'let a paused board go on', resume, 'the board goes on'],
  ] as const
  for (const [name, description, act, words] of verbs) {
    withCommon(task.command(name))
      .description(description)
      .option('--reason <text>', 'why, for the log')
      .action(async (flags: ReasonFlags) => {
        const paused = name === 'pause'
        const reason = flags.reason === undefined ? {} : { reason: flags.reason }
        const server = boardServer(flags)
        if (server !== undefined) {
          await server.ask('POST', '/board/control', { body: { paused, ...reason } })
          return answer(flags, { paused }, () => words)
        }
        return onRoot(flags, 'write', async ({ operator: hands }) => {
          await act(hands, { by: whoAmI(flags), ...reason })
          answer(flags, { paused }, () => words)
        })
      })
  }
}
