/** The commands of `bellwether task` that change a task or the board. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { defined } from '@bellwether/base'
import { InvalidInput, mergeModes, workspaceKinds, type MergeMode, type WorkspaceKind } from '@bellwether/protocol'
import type { BodyFor } from '@bellwether/protocol/http'
import { InvalidArgumentError, Option, type Command } from 'commander'
import type { taskMoves } from '../../../board/dispatch/requests.js'
import type { TaskView } from '../../../board/tasks/task-view.js'
import type { Client } from '../../../client/client.js'
import { plain } from '../../../client/sanitize.js'
import { agentsFolder } from '../../../runtime/paths.js'
import { similar } from '../../../settings/nearest.js'
import { collect } from '../../shared/options.js'
import { print as printResult } from '../../shared/output.js'
import { readInstruction } from '../../shared/instruction.js'
import { boardServer, onRoot, whoAmI, withCommon, type CommonFlags } from './root.js'

interface FieldFlags extends CommonFlags {
  readonly title?: string
  readonly instruction?: string
  readonly file?: string
  readonly priority?: number
  readonly impact?: number
  /** False: `--no-after`, an empty list. */
  readonly after?: string[] | false
  readonly role?: string
  readonly agent?: string
  readonly capability?: string[] | false
  readonly check?: string[] | false
  readonly verify?: string[] | false
  readonly review?: boolean
  readonly approval?: boolean
  readonly workspace?: string
  readonly base?: string
  readonly merge?: string
}

const instructionMaxBytes = 100_000

/** The options for the fields of a task, which `add` sets and `edit` changes. */
function withFields(command: Command): Command {
  return command
    .option('-i, --instruction <text>', 'what to do')
    .option('-F, --file <file>', 'read the instruction from a file; - for stdin')
    .option('--priority <n>', 'higher runs first', anyNumber)
    .option('--impact <n>', 'breaks ties between equal priorities', anyNumber)
    .option('--after <id>', 'start only after this task is done; may be repeated', collect)
    .option('--role <name>', 'the role that runs it and whose evidence rules apply')
    .option('-a, --agent <name>', 'the first agent to run it')
    .option('--capability <name>', 'what its agent must be able to do; may be repeated', collect)
    .option('--check <name>', 'a check of the acceptance policy that must pass; may be repeated', collect)
    .option('--verify <command>', 'a command that must pass; may be repeated', collect)
    .option('--review', 'a person reviews it after acceptance')
    .option('--approval', 'a person must approve it before dispatch')
    .addOption(new Option('--workspace <kind>', 'where its runs work').choices(workspaceKinds))
    .option('--base <branch>', 'the branch that its worktree is made from and merged into')
    .addOption(new Option('--merge <mode>', 'what happens to the change in its worktree').choices(mergeModes))
}

async function fieldsOf(flags: FieldFlags) {
  const list = (values: string[] | false | undefined) => (values === false ? [] : values)
  return defined({
    title: flags.title,
    instruction: await instructionOf(flags),
    priority: flags.priority,
    impact: flags.impact,
    dependencies: list(flags.after),
    role: flags.role,
    agent: flags.agent,
    capabilities: list(flags.capability),
    checks: list(flags.check),
    verify: list(flags.verify),
    review: flags.review,
    requiresApproval: flags.approval,
    workspace: flags.workspace as WorkspaceKind | undefined,
    base: flags.base,
    merge: flags.merge as MergeMode | undefined,
  })
}

export function addCommand(task: Command): void {
  withFields(withCommon(task.command('add <title>')))
    .description('add a task')
    .option('--id <id>', 'id of the task (default: the next T-…)')
    .action(async (title: string, flags: FieldFlags & { readonly id?: string }) => {
      const input = { ...(await fieldsOf(flags)), title, ...defined({ taskId: flags.id }) }
      const server = await boardServer(flags)
      if (server !== undefined) {
        const addedTask = await server.ask('POST /board/tasks', { body: input })
        return printResult(
          flags,
          { taskId: addedTask.taskId, status: addedTask.status },
          () => `added ${plain(addedTask.taskId)}`,
        )
      }
      return onRoot(flags, 'create', async ({ board, operator, policies }) => {
        const { addTask, checked, mustKnowChecks, newTask } = await boardRules()
        if (input.checks !== undefined) mustKnowChecks((await policies()).acceptance, input.checks)
        const taskId = await addTask(operator, checked(newTask, input, 'task'), whoAmI(flags))
        printResult(flags, { taskId, status: 'pending' }, () => `added ${taskId}`)
        if (input.agent !== undefined) warnOfUnknown(input.agent, join(board.root, agentsFolder))
      })
    })
}

/** Another agent may still be registered by a worker: the task is added. */
function warnOfUnknown(agent: string, folder: string): void {
  if (!existsSync(folder) || existsSync(join(folder, `${agent}.md`))) return
  const names = readdirSync(folder).flatMap((file) => (file.endsWith('.md') ? [file.slice(0, -'.md'.length)] : []))
  const meant = similar(agent, names)
  const hint = meant === undefined ? `there is: ${names.join(', ')}` : `did you mean ${meant}?`
  process.stderr.write(`warning: ${plain(`${agentsFolder}/ has no file for agent "${agent}"; ${hint}`)}\n`)
}

export function editCommand(task: Command): void {
  withFields(withCommon(task.command('edit <id>')))
    .description('change fields of a task; a list replaces the old one, and a run that is open is not affected')
    .option('--title <text>', 'the new title')
    .option('--no-after', 'remove all dependencies')
    .option('--no-capability', 'remove all capabilities')
    .option('--no-check', 'remove all checks')
    .option('--no-verify', 'remove all verify commands')
    .option('--no-review', 'no person reviews it')
    .option('--no-approval', 'no person must approve it')
    .action(async (id: string, flags: FieldFlags) => {
      const change = await fieldsOf(flags)
      const names = Object.keys(change)
      if (names.length === 0)
        throw new InvalidInput(`Nothing to change in ${id}: no option names a field`, {
          code: 'empty_change',
          hint: `for example: bellwether task edit ${id} --title "…"; bellwether task edit --help lists the options`,
        })
      const show = () =>
        printResult(flags, { taskId: id, changed: names }, () => plain(`${id}: changed ${names.join(', ')}`))
      const server = await boardServer(flags)
      if (server !== undefined) {
        await changed(server, id, change)
        return show()
      }
      return onRoot(flags, 'write', async ({ operator, policies }) => {
        const { changeTask, checked, mustKnowChecks, taskChange } = await boardRules()
        if (change.checks !== undefined) mustKnowChecks((await policies()).acceptance, change.checks)
        await changeTask(operator, id, checked(taskChange, change, 'change'), whoAmI(flags))
        show()
      })
    })
}

/** Loaded only where local files are written: the help and the commands of a server do not wait for them. */
async function boardRules() {
  const [schemas, { checked }, { mustKnowChecks }, commands, operator, { taskMoves }] = await Promise.all([
    import('@bellwether/protocol/task-input'),
    import('../../../board/tasks/input.js'),
    import('../../../board/policies/acceptance.js'),
    import('../../../board/tasks/task-commands.js'),
    import('../../../board/tasks/operator-commands.js'),
    import('../../../board/dispatch/requests.js'),
  ])
  return { ...schemas, ...commands, ...operator, checked, mustKnowChecks, taskMoves }
}

async function instructionOf(flags: FieldFlags): Promise<string | undefined> {
  if (flags.file === undefined) return flags.instruction
  if (flags.instruction !== undefined) {
    throw new InvalidInput('--instruction and --file cannot be combined.', {
      code: 'contradicting_options',
      hint: 'Omit one of them.',
    })
  }
  return readInstruction(flags.file, instructionMaxBytes)
}

function anyNumber(text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number)) return number
  throw new InvalidArgumentError('Use a number.')
}

/** Changes a task through a server and returns it. */
export const changed = (server: Client, task: string, body: BodyFor<'PATCH /board/tasks/:task'>) =>
  server.ask('PATCH /board/tasks/:task', { params: { task }, body })

interface ReasonFlags extends CommonFlags {
  readonly reason?: string
}

const moves: readonly (readonly [action: keyof typeof taskMoves, description: string, past: string])[] = [
  ['claim', 'take a task yourself', 'is yours'],
  ['block', 'mark a task as blocked', 'is blocked'],
  ['escalate', 'hand a task to a person', 'waits for a person'],
  ['freeze', 'prevent a task from being dispatched', 'is frozen'],
  ['unfreeze', 'allow a frozen task to be dispatched', 'is not frozen any more'],
  ['release', 'release a task that is held because of a damaged line of the log', 'is released'],
  ['approve', 'approve a task that needs approval', 'is approved'],
  ['reject', 'reject a task that needs approval: it fails', 'is rejected'],
  ['require_approval', 'require approval before a task is dispatched', 'needs approval'],
  ['abort', 'end a task as failed and stop its turn', 'is aborted'],
  ['send_back', 'send a change that waits for a merge back to its agent, who continues it', 'is sent back'],
]

/** The commands for one task with an optional reason. */
export function moveCommands(task: Command): void {
  for (const [action, description, past] of moves) {
    withCommon(task.command(`${action.replace('_', '-')} <id>`))
      .description(description)
      .option('-r, --reason <text>', 'the reason, for the log')
      .action(async (id: string, flags: ReasonFlags) => {
        const why = defined({ reason: flags.reason })
        const show = ({ status, reason }: Pick<TaskView, 'status' | 'reason'>) =>
          printResult(flags, { taskId: id, status, reason }, () => plain(`${id} ${past} (${status})`))
        const server = await boardServer(flags)
        if (server !== undefined) return show(await changed(server, id, { action, ...why }))
        return onRoot(flags, 'write', async ({ operator, policies, board }) => {
          const { taskMoves } = await boardRules()
          const ports = { ...operator, recovery: async () => (await policies()).recovery }
          await taskMoves[action](ports, id, { by: whoAmI(flags), ...why })
          show(board.state.tasks.get(id)!)
        })
      })
  }
}

export function retryCommand(task: Command): void {
  withCommon(task.command('retry <id>'))
    .description('let agents retry a blocked or failed task from the first attempt')
    .option('-a, --agent <name>', 'the agent to retry with')
    .option('--fresh-budget', 'ignore earlier usage')
    .option('-r, --reason <text>', 'the reason, which the next run gets')
    .action(async (id: string, flags: ReasonFlags & { agent?: string; freshBudget?: boolean }) => {
      const input = defined({ reason: flags.reason, agent: flags.agent, freshBudget: flags.freshBudget })
      const print = ({ status, reason }: Pick<TaskView, 'status' | 'reason'>) =>
        printResult(flags, { taskId: id, status, reason }, () => plain(`${id} will be retried: ${reason ?? ''}`))
      const server = await boardServer(flags)
      if (server !== undefined) return print(await changed(server, id, { action: 'retry', ...input }))
      return onRoot(flags, 'write', async ({ operator, settings, board }) => {
        const { retryTask } = await boardRules()
        await retryTask({ ...operator, firstAgent: settings.first_agent }, id, { by: whoAmI(flags), ...input })
        print(board.state.tasks.get(id)!)
      })
    })
}

export function boardCommands(task: Command): void {
  const verbs = [
    ['pause', 'stop dispatching tasks; running turns continue', 'the board is paused'],
    ['resume', 'resume a paused board', 'the board is resumed'],
  ] as const
  for (const [name, description, words] of verbs) {
    withCommon(task.command(name))
      .description(description)
      .option('-r, --reason <text>', 'the reason, for the log')
      .action(async (flags: ReasonFlags) => {
        const paused = name === 'pause'
        const reason = defined({ reason: flags.reason })
        const server = await boardServer(flags)
        if (server !== undefined) {
          await server.ask('POST /board/control', { body: { paused, ...reason } })
          return printResult(flags, { paused }, () => words)
        }
        return onRoot(flags, 'create', async ({ operator }) => {
          const rules = await boardRules()
          await rules[name](operator, { by: whoAmI(flags), ...reason })
          printResult(flags, { paused }, () => words)
        })
      })
  }
}
