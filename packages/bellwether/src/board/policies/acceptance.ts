/**
 * Decides whether the evidence proves that a task is done: the claimed files and the results of the verify commands. Pure. A file that
 * cannot be inspected yet means wait, never missing (hazard 21), and a deliverable cannot name commands.
 * dispatch/collect-evidence.ts collects the evidence.
 */
import { isAbsolute, normalize, relative } from 'node:path'
import { defined } from '@bellwether/base'
import { z } from 'zod'
import type { CommandResult } from '../../ports/processes/run-command.js'
import type { FileEvidence } from '../ports.js'
import type { Task } from '../log/task.js'
import { leadsOut } from './inside.js'
import { bounds, nameMap, type PolicyFile } from './shape.js'

// A longer list belongs into a script.
const commandsMax = 50

// A shell command line, or a program with its arguments without a shell.
const commandLine = z.union([z.string().min(1).max(8_192), z.array(z.string().max(8_192)).min(1).max(256)])
const verifyShape = z.strictObject({
  command: commandLine,
  timeoutSec: bounds.seconds(0.1).max(86_400).optional(),
  /** Inside the task root; default: the root. */
  cwd: z.string().min(1).max(4_096).optional(),
})
export type VerifyCommand = z.output<typeof verifyShape> & { readonly timeoutSec: number }

/** The evidence that a role requires. */
const requirements = z.strictObject({
  /** Pieces of evidence of any kind: files found, commands passed, and fields if `fieldsCount`. */
  minEvidence: bounds.count(0, 1_000),
  minFiles: bounds.count(0, 1_000),
  minFileBytes: bounds.count(0),
  /** Files must have changed since the run started: older files prove nothing. */
  filesMustChange: z.boolean(),
  /** Fields of the deliverable that must not be empty. */
  fields: z.array(z.string().min(1).max(200)).max(100),
  /** Whether fields count as evidence, for roles that create no files. */
  fieldsCount: z.boolean(),
  /** The deliverable must contain one of these words, case-insensitively; empty: none is needed. */
  requireAny: z.array(z.string().min(1).max(200)).max(100),
  commands: z.array(verifyShape).max(commandsMax),
  minCommands: bounds.count(0, commandsMax),
})
export type Requirements = z.output<typeof requirements>

const policyShape = z.strictObject({
  default: requirements,
  roles: nameMap(requirements.partial()),
  commandTimeoutSec: bounds.seconds(0.1).max(86_400),
  /** How long to wait for files that cannot be inspected yet before a person is asked. */
  maxWaitSec: bounds.seconds(0),
  /** Additional environment variables that verify commands may see. */
  environment: z.array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/)).max(100),
})
export type AcceptancePolicy = z.output<typeof policyShape>
export const acceptanceShape = policyShape.extend({ default: requirements.partial() }).partial()

export const defaultAcceptance: AcceptancePolicy = {
  default: {
    minEvidence: 1,
    minFiles: 0,
    minFileBytes: 0,
    filesMustChange: true,
    fields: [],
    fieldsCount: false,
    requireAny: [],
    commands: [],
    minCommands: 0,
  },
  roles: { 'invest-analyst': { fields: ['summary'], fieldsCount: true }, human: { minEvidence: 0 } },
  commandTimeoutSec: 120,
  maxWaitSec: 600,
  environment: [],
}

export const acceptanceFile: PolicyFile<AcceptancePolicy> = {
  path: 'config/acceptance-policy.json',
  shape: acceptanceShape,
  defaults: defaultAcceptance,
  about: 'Which evidence a task needs to be done: under "default" for every role, under "roles" per role.',
}

/** The files that a deliverable claims, as safe paths. */
export interface Claims {
  /** Paths relative to the root, without repetition. */
  readonly files: readonly string[]
  /** Claims that are not inspected, with the reason. */
  readonly refused: readonly string[]
}

export interface EvidenceRecord {
  readonly files: readonly {
    readonly path: string
    readonly size?: number
    readonly sha256?: string
    readonly from?: FileEvidence['from']
  }[]
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
  /** `overdue`: waited longer than the policy allows; a person is asked. */
  | { readonly verdict: 'wait'; readonly reasons: readonly string[]; readonly overdue: boolean }

export type Deliverable = Readonly<Record<string, unknown>>

/** The role whose requirements apply: that of the task, else the agent that ran it. */
export function roleOf(task: Task): string {
  const own = task.fields['role']
  const agent = task.runs.at(-1)?.agent ?? task.assignee
  return (typeof own === 'string' && own.trim() !== '' ? own : (agent ?? 'default')).trim().toLowerCase()
}

export function requirementsFor(policy: AcceptancePolicy, role: string): Requirements {
  const own = Object.hasOwn(policy.roles, role) ? policy.roles[role] : undefined
  return { ...policy.default, ...defined(own ?? {}) }
}

// Bounds the time of one inspection.
const filesMax = 500
const pathMax = 4_096

const claimedFile = z.union([z.string(), z.object({ path: z.string() }).transform(({ path }) => path)])

/** `files` and `artifacts` of a deliverable: strings or objects with a `path`. Absolute paths count if inside the root. */
export function claimsOf(deliverable: Deliverable | null, root: string): Claims {
  const files = new Set<string>()
  const refused: string[] = []
  const raw = ['files', 'artifacts'].flatMap((key) => {
    const value = deliverable !== null && Object.hasOwn(deliverable, key) ? deliverable[key] : undefined
    return Array.isArray(value) ? (value as unknown[]) : value === undefined || value === null ? [] : [value]
  })
  if (raw.length > filesMax) refused.push(`${raw.length} files are claimed; the maximum is ${filesMax}`)
  for (const item of raw.slice(0, filesMax)) {
    const path = claimedFile.safeParse(item).data?.trim()
    if (path === undefined || path === '') refused.push('a claimed file has no path')
    else if (path.length > pathMax || path.includes('\0')) refused.push(`a claimed path is invalid: ${show(path)}`)
    else {
      const inside = normalize(isAbsolute(path) ? relative(root, path) : path)
      if (leadsOut(inside) || inside === '.') refused.push(`a claimed file is outside the task root: ${show(path)}`)
      else files.add(inside)
    }
  }
  return { files: [...files], refused }
}

const show = (text: string) => JSON.stringify(text.slice(0, 120))

/** The verify commands of the task itself; `invalid` counts entries that are not commands. */
function ownCommands(task: Task): { readonly commands: Requirements['commands']; readonly invalid: number } {
  const own = task.fields['verify']
  const list = Array.isArray(own) ? (own as unknown[]) : own === undefined || own === null ? [] : [own]
  const commands = list.slice(0, commandsMax).flatMap((item) => {
    const line = commandLine.safeParse(item)
    return line.success ? [{ command: line.data }] : (verifyShape.safeParse(item).data ?? [])
  })
  return { commands, invalid: list.length - commands.length }
}

/** The verify commands a task must pass: its role's, then its own (`verify`). */
export function commandsFor(policy: AcceptancePolicy, task: Task): readonly VerifyCommand[] {
  const all = [...requirementsFor(policy, roleOf(task)).commands, ...ownCommands(task).commands]
  return all.map((one) => ({ ...one, timeoutSec: one.timeoutSec ?? policy.commandTimeoutSec }))
}

export const commandText = (command: string | readonly string[]) =>
  (typeof command === 'string' ? command : command.join(' ')).slice(0, 500)

const isFilled = (value: unknown): boolean =>
  typeof value === 'string'
    ? value.trim() !== ''
    : typeof value === 'object' && value !== null
      ? Object.keys(value).length > 0
      : value !== undefined && value !== null

export interface Findings {
  readonly claims: Claims
  readonly files: readonly FileEvidence[]
  /** In the order of `commandsFor`; commands that were not run are missing at the end. */
  readonly commands: readonly CommandResult[]
  readonly waitedMs?: number
}

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
  const required = requirementsFor(policy, roleOf(task))
  const tally: Tally = { failures: [...findings.claims.refused], waiting: [], files: [], commands: [], fields: [] }
  weighFiles(tally, required, findings)
  weighCommands(tally, policy, task, findings.commands)
  for (const field of required.fields) {
    const isSet = deliverable !== null && Object.hasOwn(deliverable, field) && isFilled(deliverable[field])
    if (isSet) tally.fields.push(field)
    else tally.failures.push(`the deliverable has no "${field}"`)
  }
  const missing = missingWords(required.requireAny, deliverable)
  if (missing !== null) tally.failures.push(missing)
  const { failures, waiting, files, commands, fields } = tally
  const evidence = { files, commands, fields }
  // A certain failure does not wait for the remaining files; missing evidence does.
  if (failures.length > 0) return { verdict: 'incomplete_output', reasons: failures, evidence }
  if (waiting.length > 0)
    return { verdict: 'wait', reasons: waiting, overdue: (findings.waitedMs ?? 0) >= policy.maxWaitSec * 1_000 }
  const reasons = unmetRequirements(required, evidence)
  return reasons.length > 0 ? { verdict: 'incomplete_output', reasons, evidence } : { verdict: 'done', evidence }
}

function missingWords(words: readonly string[], deliverable: Deliverable | null): string | null {
  const text = JSON.stringify(deliverable ?? '').toLowerCase()
  return words.length === 0 || words.some((word) => text.includes(word.toLowerCase()))
    ? null
    : `the deliverable contains none of: ${words.slice(0, 10).join(', ')}`
}

function weighFiles({ failures, waiting, files }: Tally, required: Requirements, findings: Findings): void {
  const seen = new Map(findings.files.map((file) => [file.path, file]))
  for (const path of findings.claims.files) {
    const file = seen.get(path)
    if (file === undefined || file.found === 'not_ready') waiting.push(`${path} cannot be inspected yet`)
    else {
      const { size, sha256, from } = file
      const fault = fileFault(file, required)
      if (fault !== null) failures.push(`${path} ${fault}`)
      else files.push({ path, ...defined({ size, sha256, from }) })
    }
  }
}

function fileFault({ found, size = 0, changedSince }: FileEvidence, required: Requirements): string | null {
  if (found === 'missing') return 'is claimed but does not exist'
  if (size < required.minFileBytes) return `has ${size} bytes; the minimum is ${required.minFileBytes}`
  if (!required.filesMustChange || changedSince === true) return null
  return changedSince === false
    ? 'has not changed since the run started'
    : 'may be older than the run: no change token was taken'
}

function weighCommands(
  { failures, commands }: Tally,
  policy: AcceptancePolicy,
  task: Task,
  results: readonly CommandResult[],
): void {
  const { invalid } = ownCommands(task)
  if (invalid > 0) failures.push(`${invalid} verify command(s) of the task are invalid`)
  commandsFor(policy, task).forEach((one, index) => {
    const result = results[index]
    const command = commandText(one.command)
    if (result === undefined) failures.push(`verify command did not run: ${command}`)
    else if (result.exitCode === 0 && !result.timedOut)
      commands.push({ command, exitCode: 0, durationMs: result.durationMs })
    else failures.push(`verify command ${howFailed(result)}: ${command}${lastLine(result.output)}`)
  })
}

function howFailed(result: CommandResult): string {
  if (result.timedOut) return `took longer than ${Math.round(result.durationMs)} ms`
  if (result.failure !== undefined) return `could not start (${result.failure})`
  return result.exitCode === null ? `was killed by ${result.signal ?? 'a signal'}` : `exited with ${result.exitCode}`
}

/** The last line of the output: usually the reason, for the next run. */
function lastLine(output: string): string {
  const line = output.trimEnd().split('\n').at(-1)?.trim() ?? ''
  return line === '' ? '' : ` (${line.slice(-200).toWellFormed()})`
}

function unmetRequirements(required: Requirements, { files, commands, fields }: EvidenceRecord): string[] {
  const reasons: string[] = []
  if (files.length < required.minFiles) reasons.push(`${required.minFiles} file(s) required, ${files.length} found`)
  if (commands.length < required.minCommands)
    reasons.push(`${required.minCommands} passing verify command(s) required, ${commands.length} passed`)
  const pieces = files.length + commands.length + (required.fieldsCount ? fields.length : 0)
  if (pieces < required.minEvidence)
    reasons.push(`done without evidence: ${required.minEvidence} piece(s) required, ${pieces} found`)
  return reasons
}
