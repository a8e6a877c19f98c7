/**
 * Is it really done? Completion is checked, not believed: which evidence a role owes, what a deliverable claims, and the
 * judgement over what was found on disk and what the verify commands said. Always: pure; commands come from the policy and
 * the task, never from a deliverable; what cannot be looked at yet means wait, never missing (hazard 21); "done" without
 * evidence is `incomplete_output`. Looking and running are left to `Evidence` and to ports/processes/run-command.ts.
 */
import { isAbsolute, normalize, relative, sep } from 'node:path'
import { z } from 'zod'
import type { CommandResult } from '../../ports/processes/run-command.js'
import type { FileEvidence } from '../ports.js'
import type { Task } from '../log/task.js'
import { bounds, nameMap } from './shape.js'

export const acceptanceFile = 'config/acceptance-policy.json'

// More commands than this are a script, and belong into one.
const commandsMax = 50

// One line of shell for people, or a program with its arguments for what must not be read by a shell.
const commandLine = z.union([z.string().min(1).max(8_192), z.array(z.string().max(8_192)).min(1).max(256)])
const verifyShape = z.strictObject({
  command: commandLine,
  timeoutSec: bounds.seconds(0.1).max(86_400).optional(),
  cwd: z.string().min(1).max(4_096).optional(),
})
const role = z.strictObject({
  minEvidence: bounds.count(0, 1_000).optional(),
  minFiles: bounds.count(0, 1_000).optional(),
  minFileBytes: bounds.count(0).optional(),
  filesMustChange: z.boolean().optional(),
  fields: z.array(z.string().min(1).max(200)).max(100).optional(),
  fieldsCount: z.boolean().optional(),
  commands: z.array(verifyShape).max(commandsMax).optional(),
  minCommands: bounds.count(0, commandsMax).optional(),
})
export const acceptanceShape = z.strictObject({
  default: role.optional(),
  roles: nameMap(role).optional(),
  commandTimeoutSec: bounds.seconds(0.1).max(86_400).optional(),
  maxWaitSec: bounds.seconds(0).optional(),
  environment: z
    .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/))
    .max(100)
    .optional(),
})

export interface VerifyCommand {
  readonly command: string | readonly string[]
  readonly timeoutSec: number
  /** Inside the task root; the root itself when absent. */
  readonly cwd?: string
}

/** What a role owes. */
export interface Requirements {
  /** Pieces of evidence of any kind: files found, commands passed, and fields where they count. */
  readonly minEvidence: number
  readonly minFiles: number
  readonly minFileBytes: number
  /** Files must have changed since the run began: what was there before proves nothing. */
  readonly filesMustChange: boolean
  /** Fields of the deliverable that must not be empty. */
  readonly fields: readonly string[]
  /** Whether words count as evidence: for roles that make no files. */
  readonly fieldsCount: boolean
  readonly commands: readonly {
    readonly command: string | readonly string[]
    readonly timeoutSec?: number | undefined
    readonly cwd?: string | undefined
  }[]
  readonly minCommands: number
}

export interface AcceptancePolicy {
  readonly default: Requirements
  readonly roles: Readonly<Record<string, { readonly [K in keyof Requirements]?: Requirements[K] | undefined }>>
  readonly commandTimeoutSec: number
  /** How long to wait for evidence that cannot be looked at yet before a human is asked. */
  readonly maxWaitSec: number
  /** Names of further environment variables that verify commands may see. */
  readonly environment: readonly string[]
}

export const shippedAcceptance: AcceptancePolicy = {
  default: {
    minEvidence: 1,
    minFiles: 0,
    minFileBytes: 0,
    filesMustChange: true,
    fields: [],
    fieldsCount: false,
    commands: [],
    minCommands: 0,
  },
  roles: {
    'invest-analyst': { fields: ['summary'], fieldsCount: true },
    human: { minEvidence: 0 },
  },
  commandTimeoutSec: 120,
  maxWaitSec: 600,
  environment: [],
}

/** What a deliverable claims, made safe to look at. */
export interface Claims {
  /** Paths relative to the root, without repetition. */
  readonly files: readonly string[]
  /** Claims that nobody will look at, with the reason. */
  readonly refused: readonly string[]
}

export interface EvidenceRecord {
  readonly files: readonly { readonly path: string; readonly size?: number; readonly sha256?: string }[]
  readonly commands: readonly {
    readonly command: string
    readonly exitCode: number | null
    readonly durationMs: number
  }[]
  readonly fields: readonly string[]
}

export type Judgement =
  | { readonly verdict: 'done'; readonly evidence: EvidenceRecord }
  | { readonly verdict: 'incomplete_output'; readonly reasons: readonly string[]; readonly evidence: EvidenceRecord }
  /** `overdue`: waited longer than the policy allows; a human is to be asked. */
  | { readonly verdict: 'wait'; readonly reasons: readonly string[]; readonly overdue: boolean }

export type Deliverable = Readonly<Record<string, unknown>>

/** The role a task is judged by: its own, else the agent that did it. */
export function roleOf(task: Task): string {
  const own = task.fields['role']
  const agent = task.runs.at(-1)?.agent ?? task.assignee
  return (typeof own === 'string' && own.trim() !== '' ? own : (agent ?? 'default')).trim().toLowerCase()
}

export function requirementsFor(policy: AcceptancePolicy, role: string): Requirements {
  const own = Object.hasOwn(policy.roles, role) ? policy.roles[role] : undefined
  const given = Object.entries(own ?? {}).filter(([, value]) => value !== undefined)
  return { ...policy.default, ...Object.fromEntries(given) }
}

// A claim of more than this is no claim that anybody can look at.
const filesMax = 500
const pathMax = 4_096

const claimedFile = z.union([z.string(), z.object({ path: z.string() }).transform(({ path }) => path)])

/** `files` (or `artifacts`) of a deliverable: texts or objects with a `path`. Absolute paths count when inside the root. */
export function claimsOf(deliverable: Deliverable | null, root: string): Claims {
  const files = new Set<string>()
  const refused: string[] = []
  const raw = ['files', 'artifacts'].flatMap((key) => {
    const value = deliverable !== null && Object.hasOwn(deliverable, key) ? deliverable[key] : undefined
    return Array.isArray(value) ? (value as unknown[]) : value === undefined || value === null ? [] : [value]
  })
  if (raw.length > filesMax) refused.push(`${raw.length} files are claimed; at most ${filesMax} are looked at`)
  for (const item of raw.slice(0, filesMax)) {
    const path = claimedFile.safeParse(item).data?.trim()
    if (path === undefined || path === '') refused.push('a claimed file has no path')
    else if (path.length > pathMax || path.includes('\0')) refused.push(`a claimed path is no path: ${show(path)}`)
    else {
      const inside = normalize(isAbsolute(path) ? relative(root, path) : path)
      if (isAbsolute(inside) || inside === '..' || inside.startsWith(`..${sep}`) || inside === '.')
        refused.push(`a claimed file is outside the task root: ${show(path)}`)
      else files.add(inside)
    }
  }
  return { files: [...files], refused }
}

const show = (text: string) => JSON.stringify(text.slice(0, 120))

/** The verify commands of the task itself; `unreadable` counts those that are no commands. */
function ownCommands(task: Task): { readonly commands: Requirements['commands']; readonly unreadable: number } {
  const own = task.fields['verify']
  const list = Array.isArray(own) ? (own as unknown[]) : own === undefined || own === null ? [] : [own]
  const commands = list.slice(0, commandsMax).flatMap((item) => {
    const line = commandLine.safeParse(item)
    return line.success ? [{ command: line.data }] : (verifyShape.safeParse(item).data ?? [])
  })
  return { commands, unreadable: list.length - commands.length }
}

/** The verify commands a task must pass: its role's, then its own (`verify`). */
export function commandsFor(policy: AcceptancePolicy, task: Task): readonly VerifyCommand[] {
  const all = [...requirementsFor(policy, roleOf(task)).commands, ...ownCommands(task).commands]
  return all.map(({ command, timeoutSec, cwd }) => ({
    command,
    timeoutSec: timeoutSec ?? policy.commandTimeoutSec,
    ...(cwd === undefined ? {} : { cwd }),
  }))
}

/** Says a deliverable itself that it is blocked? The reason it gives, or null. */
export function blockedSignal(deliverable: Deliverable | null): string | null {
  const status = deliverable !== null && Object.hasOwn(deliverable, 'status') ? deliverable['status'] : undefined
  const blocked = deliverable !== null && Object.hasOwn(deliverable, 'blocked') ? deliverable['blocked'] : undefined
  if (blocked !== true && typeof blocked !== 'string' && status !== 'blocked') return null
  const reason = typeof blocked === 'string' ? blocked : deliverable?.['reason']
  return typeof reason === 'string' && reason.trim() !== ''
    ? reason.slice(0, 2_000)
    : 'the deliverable says that it is blocked'
}

export const commandText = (command: string | readonly string[]) =>
  (typeof command === 'string' ? command : command.join(' ')).slice(0, 500)

const filled = (value: unknown): boolean =>
  typeof value === 'string'
    ? value.trim() !== ''
    : typeof value === 'object' && value !== null
      ? Object.keys(value).length > 0
      : value !== undefined && value !== null

/** What was looked at and what was run, beside what was claimed. */
export interface Findings {
  readonly claims: Claims
  readonly files: readonly FileEvidence[]
  /** In the order of `commandsFor`; one that was not run is missing at the end. */
  readonly commands: readonly CommandResult[]
  /** How long this has been waited for already. */
  readonly waitedMs?: number
}

/** What the judgement adds up. */
interface Tally {
  readonly failures: string[]
  readonly waiting: string[]
  readonly files: EvidenceRecord['files'][number][]
  readonly commands: EvidenceRecord['commands'][number][]
  readonly fields: string[]
}

export function accept(
  policy: AcceptancePolicy,
  task: Task,
  deliverable: Deliverable | null,
  findings: Findings,
): Judgement {
  const owed = requirementsFor(policy, roleOf(task))
  const tally: Tally = { failures: [...findings.claims.refused], waiting: [], files: [], commands: [], fields: [] }
  weighFiles(tally, owed, findings)
  weighCommands(tally, policy, task, findings.commands)
  for (const field of owed.fields) {
    const given = deliverable !== null && Object.hasOwn(deliverable, field) && filled(deliverable[field])
    if (given) tally.fields.push(field)
    else tally.failures.push(`the deliverable has no ${field}`)
  }
  const { failures, waiting, files, commands, fields } = tally
  const evidence = { files, commands, fields }
  // What has surely failed does not wait for the rest; what is merely not enough yet does.
  if (failures.length > 0) return { verdict: 'incomplete_output', reasons: failures, evidence }
  if (waiting.length > 0)
    return { verdict: 'wait', reasons: waiting, overdue: (findings.waitedMs ?? 0) >= policy.maxWaitSec * 1_000 }
  const reasons = unmetRequirements(owed, evidence)
  return reasons.length > 0 ? { verdict: 'incomplete_output', reasons, evidence } : { verdict: 'done', evidence }
}

function weighFiles({ failures, waiting, files }: Tally, owed: Requirements, findings: Findings): void {
  const seen = new Map(findings.files.map((file) => [file.path, file]))
  for (const path of findings.claims.files) {
    const file = seen.get(path)
    if (file === undefined || file.found === 'not_ready') waiting.push(`${path} cannot be looked at yet`)
    else {
      const { size, sha256 } = file
      const fault = fileFault(file, owed)
      if (fault !== null) failures.push(`${path} ${fault}`)
      else files.push({ path, ...(size === undefined ? {} : { size }), ...(sha256 === undefined ? {} : { sha256 }) })
    }
  }
}

function fileFault({ found, size = 0, changedSince }: FileEvidence, owed: Requirements): string | null {
  if (found === 'missing') return 'is claimed and is not there'
  if (size < owed.minFileBytes) return `has ${size} bytes; at least ${owed.minFileBytes} are owed`
  if (!owed.filesMustChange || changedSince === true) return null
  return changedSince === false
    ? 'has not changed since the run began'
    : 'cannot be told from what was there before: no change token was taken'
}

function weighCommands(
  { failures, commands }: Tally,
  policy: AcceptancePolicy,
  task: Task,
  results: readonly CommandResult[],
): void {
  const { unreadable } = ownCommands(task)
  if (unreadable > 0) failures.push(`${unreadable} verify command(s) of the task cannot be read`)
  commandsFor(policy, task).forEach((one, index) => {
    const result = results[index]
    const command = commandText(one.command)
    if (result === undefined) failures.push(`verify command was not run: ${command}`)
    else if (result.exitCode === 0 && !result.timedOut)
      commands.push({ command, exitCode: 0, durationMs: result.durationMs })
    else failures.push(`verify command ${howFailed(result)}: ${command}${lastLine(result.output)}`)
  })
}

function howFailed(result: CommandResult): string {
  if (result.timedOut) return `took longer than ${Math.round(result.durationMs)} ms`
  if (result.failure !== undefined) return `could not be run (${result.failure})`
  return result.exitCode === null ? `was ended by ${result.signal ?? 'a signal'}` : `ended with ${result.exitCode}`
}

/** What it said last: most often the reason, and what the next to try wants to know. */
function lastLine(output: string): string {
  const line = output.trimEnd().split('\n').at(-1)?.trim() ?? ''
  return line === '' ? '' : ` (${line.slice(-200).toWellFormed()})`
}

function unmetRequirements(owed: Requirements, { files, commands, fields }: EvidenceRecord): string[] {
  const reasons: string[] = []
  if (files.length < owed.minFiles) reasons.push(`${owed.minFiles} file(s) are owed, ${files.length} found`)
  if (commands.length < owed.minCommands)
    reasons.push(`${owed.minCommands} passing verify command(s) are owed, ${commands.length} passed`)
  const pieces = files.length + commands.length + (owed.fieldsCount ? fields.length : 0)
  if (pieces < owed.minEvidence)
    reasons.push(`done without evidence: ${owed.minEvidence} piece(s) are owed, ${pieces} found`)
  return reasons
}
