/**
 * Lists what the control files of a project make `up` do on this machine: run commands, start work on a schedule, listen on addresses of other
 * machines, connect to endpoints, and follow links out of the project. These need a person's trust. Texts, limits and policies do not.
 */
import { lstatSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { hasCode, isDeeper, isObject, type JsonObject, objectOf, parseJson, textOrJson } from '@bellwether/base'
import { loadSettings, settingsFile } from '../../settings/load.js'
import { settingRows, type Settings } from '../../settings/schema.js'
import { commandLine } from '../../worker/executors/presets.js'
import { readAgentFile } from '../../worker/roster/agent-file.js'
import { commandsOf } from '../../evals/checks.js'
import { looseSuite, readSuiteFile } from '../../evals/suite-file.js'
import { isInside } from '../data-folder.js'
import { readScheduleFile } from '../../pmo/schedules/schedule-file.js'
import { isLoopback } from '../parts/listen.js'
import { agentsFolder, configFolder, evalsFolder, mcpFile, schedulesFolder, toolsFile } from '../paths.js'
import { hashOf, listControlFiles, pathOf, type ControlFiles, type ControlName, type ProjectFolders } from './files.js'

const levelsMax = 64

export interface Effect {
  readonly kind: 'runs' | 'starts' | 'listens on' | 'connects to' | 'lets in' | 'follows' | 'works on'
  /** The file that declares it. */
  readonly file: string
  readonly what: string
  /** The same for the same effect, whatever file declares it. */
  readonly id: string
}

const effect = (kind: Effect['kind'], file: string, what: string, detail: unknown = what): Effect => ({
  kind,
  file,
  what,
  id: hashOf(JSON.stringify([kind, detail])).slice(0, 32),
})

/** `copy` is a folder with these files, for the reader of the settings. */
export function effectsOf(files: ControlFiles, project: ProjectFolders, copy: string): readonly Effect[] {
  return [...files].flatMap(([file, text]) => {
    if (file === project.agentsFile) return [effect('runs', file, `the code of ${file}`)]
    // A person decides about the whole text: to walk it needs more stack than there is.
    if (file.endsWith('.json') && isDeeper(parseJson(text), levelsMax))
      return [effect('runs', file, `what its text declares, which has more than ${levelsMax} levels`, text)]
    const [name] = file.split('/') as [ControlName]
    return effectsIn[name](file, text, project, copy)
  })
}

/** The compiler rejects a kind of control file without its effects. */
const effectsIn: Readonly<
  Record<ControlName, (file: string, text: string, project: ProjectFolders, copy: string) => readonly Effect[]>
> = {
  [settingsFile]: (file, _text, project, copy) => ofSettings(file, project, copy),
  [mcpFile]: (_file, text) => ofServers(text),
  [toolsFile]: (_file, text) => ofTools(text),
  [agentsFolder]: ofAgent,
  [configFolder]: ofPolicy,
  [schedulesFolder]: ofSchedule,
  [evalsFolder]: ofSuite,
}

function ofAgent(file: string, text: string): Effect[] {
  const read = readAgentFile(file, text)
  if (!('agent' in read)) return [] // no agent either, until a person corrects the file
  const { settings } = read.agent
  const { executor, env = [], cwd = '.', module } = settings
  if (module !== undefined) return [effect('runs', file, `the code of ${module}`)]
  if (executor !== 'command') return []
  const { command } = commandLine(settings)
  const also = [
    ...(cwd === '.' ? [] : [`in ${cwd}`]),
    ...(env.length === 0 ? [] : [`with the variables ${env.join(', ')}`]),
  ]
  const { sandbox, network, sandbox_read: reads = [], sandbox_write: writes = [] } = settings
  const rights = [
    ...(sandbox === 'none' ? ['without a sandbox'] : []),
    ...(network === 'off' ? ['without a network'] : []),
    ...(Array.isArray(network) && network.length > 0 ? [`connecting to ${network.join(', ')}`] : []),
    ...(reads.length === 0 ? [] : [`reading ${reads.join(', ')}`]),
    ...(writes.length === 0 ? [] : [`writing ${writes.join(', ')}`]),
  ]
  const detail = [command, cwd, [...env].sort(), ...(rights.length === 0 ? [] : [rights])]
  return [effect('runs', file, [shown(command), ...also, ...rights].join(', '), detail)]
}

/** Work that no person starts, and the commands that verify it. */
function ofSchedule(file: string, text: string): Effect[] {
  const read = readScheduleFile(file, text)
  if (!('definition' in read)) return [] // its last accepted version stays in force
  const { cron, every, time_zone: zone, agent, instruction, task } = read.definition
  const when = every === undefined ? `at "${cron}" (${zone})` : `every ${every}`
  const what = task === undefined ? `agent ${agent}` : `the task ${JSON.stringify(task.title)}`
  return [
    effect('starts', file, `${what} ${when}`, [cron, every, zone, agent, instruction, task]),
    ...(task?.verify ?? []).map((one) => effect('runs', file, `${textOrJson(one)} (verify)`, one)),
  ]
}

/** Commands that check what agents wrote. */
function ofSuite(file: string, text: string): Effect[] {
  const read = readSuiteFile(file, text)
  // An invalid suite still shows its commands.
  const parsed = 'definition' in read ? read.definition : looseSuite(text)
  return [...commandsOf([parsed])].map((command) => {
    const one = parseJson(command)
    return effect('runs', file, `${Array.isArray(one) ? shown(one as string[]) : textOrJson(one)} (check)`, one)
  })
}

function ofServers(text: string): Effect[] {
  return entries(text, 'mcpServers').flatMap(([name, declared]) => {
    if (declared['disabled'] === true) return []
    const { command, args = [], env = {}, cwd = '.', url, headers = {} } = declared
    if (url !== undefined)
      return [effect('connects to', mcpFile, `${endpoint(url, headers)} (MCP server ${name})`, [url, headers])]
    const line = [textOrJson(command), ...(Array.isArray(args) ? args.map(textOrJson) : [])]
    const also = [
      ...(cwd === '.' ? [] : [`in ${textOrJson(cwd)}`]),
      ...withVariables([...Object.keys(objectOf(env)), ...expanded([args, env])]),
    ]
    const what = `${[shown(line), ...also].join(', ')} (MCP server ${name})`
    return [effect('runs', mcpFile, what, [command, args, env, cwd])]
  })
}

function ofTools(text: string): Effect[] {
  return entries(text, 'tools').map(([name, { url, headers }]) =>
    effect('connects to', toolsFile, `${endpoint(url, headers)} (tool ${name})`, [url, headers]),
  )
}

/** Headers may send variables of the person's environment. */
const endpoint = (url: unknown, headers: unknown) => [textOrJson(url), ...withVariables(expanded(headers))].join(', ')
const withVariables = (names: readonly string[]) =>
  names.length === 0 ? [] : [`with the variables ${[...new Set(names)].join(', ')}`]
const expanded = (value: unknown) =>
  [...(JSON.stringify(value) ?? '').matchAll(/\$\{([^}:"]+)/g)].map(([, name]) => name ?? '')

/** Policies name the commands that verify tasks, and the variables that these may see, under several keys. */
const policyEffect = /command|check|verify|url|env/i

function ofPolicy(file: string, text: string): Effect[] {
  const found: Effect[] = []
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      if (!policyEffect.test(key)) walk(inner)
      else for (const one of Array.isArray(inner) ? inner : [inner]) if (names(one)) found.push(declared(key, one))
    }
  }
  const declared = (key: string, one: unknown) =>
    effect(/url/i.test(key) ? 'connects to' : 'runs', file, `${key}: ${textOrJson(one)}`, [key, one])
  walk(parseJson(text))
  return found
}

/** Whether the value names something: not a number, a switch or an empty list. */
const names = (value: unknown): boolean =>
  (typeof value === 'string' && value !== '') ||
  (typeof value === 'object' && value !== null && Object.keys(value).length > 0)

function ofSettings(file: string, { folder }: ProjectFolders, copy: string): Effect[] {
  // Without the environment, which belongs to the person who starts `up`.
  const settings = loadSettings({ folder: copy, env: {} })
  const { host, port } = settings.server
  const { root = '.' } = settings.board
  const urls = settingRows().flatMap(({ section, key }) => {
    const value = (settings[section] as Readonly<Record<string, unknown>>)[key]
    return typeof value === 'string' && /(?:url|endpoint|issuer)$/.test(key)
      ? [effect('connects to', file, `${section}.${key} = ${withoutPassword(value)}`, [section, key, value])]
      : []
  })
  return [
    ...(isLoopback(host) ? [] : [effect('listens on', file, `${host}:${port}, which other machines can reach`)]),
    ...(!isInside(folder, resolve(folder, root)) ? [effect('works on', file, `the task root ${root}`)] : []),
    ...(settings.worker.sandbox === 'none' ? [effect('runs', file, 'commands of agents without a sandbox')] : []),
    ...(settings.server.admin_commands
      ? [effect('runs', file, 'commands of tasks that an admin key sends over HTTP')]
      : []),
    ...urls,
    ...ofPeople(file, settings.oidc),
  ]
}

/** People of an identity provider that the repository chooses can do what an admin's key can. */
function ofPeople(
  file: string,
  { issuer, groups_claim: claim, admins, operators, readers }: Settings['oidc'],
): Effect[] {
  if (issuer === undefined) return []
  const lists = Object.entries({ admins, operators, readers }).filter(([, list]) => list !== '')
  const what = lists.map(([role, list]) => `${role} ${list}`).join('; ')
  return [effect('lets in', file, `people of ${withoutPassword(issuer)}: ${what}`, [issuer, claim, lists])]
}

/** Links of the project that lead out of it, to a file that `up` would read or write. */
export function linksOut(project: ProjectFolders): readonly Effect[] {
  const top = realpathSync(project.folder)
  const written = ['state', 'state/tasks.jsonl', 'state/tasks.snapshot.json', 'state/locks', 'state/runs']
  const folders = [agentsFolder, configFolder, schedulesFolder, evalsFolder]
  const paths = [...folders, ...listControlFiles(project), ...written]
  const links = paths.flatMap((file) => {
    const path = file.startsWith('state') ? resolve(project.folder, project.root, file) : pathOf(project, file)
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return []
    const to = realpathOf(path)
    return to === undefined || !isInside(top, to)
      ? [effect('follows', file, `a link to ${to ?? 'a missing file'}`)]
      : []
  })
  const { folder, root } = project
  const to = isInside(folder, resolve(folder, root)) ? realpathOf(resolve(folder, root)) : undefined
  // A link on the way to the task root leads everything out that the board writes.
  return to === undefined || isInside(top, to) ? links : [...links, effect('follows', root, `a link to ${to}`)]
}

const taskLog = join('state', 'tasks.jsonl')
/** Tasks that a repository brings along start without a person. Later the board itself writes the file. */
export const storedTasks = effect('works on', taskLog, 'its open tasks, and runs the commands that verify them')
export const hasTasks = ({ folder, root }: ProjectFolders) =>
  lstatSync(resolve(folder, root, taskLog), { throwIfNoEntry: false }) !== undefined

function realpathOf(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ELOOP')) return undefined
    throw error
  }
}

function entries(text: string, key: string): readonly (readonly [string, JsonObject])[] {
  // A text that is not JSON has no entries: its reader rejects it too.
  const found = objectOf(objectOf(parseJson(text))[key])
  return Object.entries(found).filter((entry): entry is [string, JsonObject] => isObject(entry[1]))
}

const shown = (command: readonly string[]) =>
  command.map((word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : JSON.stringify(word))).join(' ')
const withoutPassword = (url: string) => url.replace(/\/\/[^@/]*@/, '//…@')
