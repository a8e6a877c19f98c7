/**
 * Decides whether the evidence proves that a task is done: the claimed files and the results of the verify commands. Pure. A file that
 * cannot be inspected yet means wait, never missing (hazard 21), and a deliverable cannot name commands.
 * acceptance-policy.ts has the policy, dispatch/evidence/collect-evidence.ts collects the evidence.
 */
import { isAbsolute, normalize, relative } from 'node:path'
import { defined } from '@bellwether/base'
import { InvalidInput, plural } from '@bellwether/protocol'
import type { FailedCheck, FailedFile } from '@bellwether/protocol/http'
import type { CommandResult } from '../../ports/processes/run-command.js'
import { either, mapped, object, text, valid } from '../../settings/shape.js'
import type { FileEvidence } from '../ports.js'
import type { Task } from '../log/task.js'
import { isPrivate, leadsOut } from './inside.js'
import { roleName } from './shape.js'
import {
  acceptanceFile,
  commandLine,
  commandsMax,
  verifyShape,
  type AcceptancePolicy,
  type Requirements,
  type VerifyCommand,
} from './acceptance-policy.js'

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

/** The claimed files and the checks that failed, in parts, for people and for the next run. */
export interface Problems {
  readonly files: readonly FailedFile[]
  readonly checks: readonly FailedCheck[]
}

export type Judgement =
  | { readonly verdict: 'done'; readonly evidence: EvidenceRecord }
  | {
      readonly verdict: 'incomplete_output'
      readonly reasons: readonly string[]
      readonly evidence: EvidenceRecord
      readonly problems: Problems
    }
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

const claimedFile = either(
  text(),
  mapped(object({ path: text() }), ({ path }) => path),
)

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
    const path = valid(claimedFile, item)?.trim()
    if (path === undefined || path === '') refused.push('a claimed file has no path')
    else if (path.length > pathMax || path.includes('\0')) refused.push(`a claimed path is invalid: ${show(path)}`)
    else {
      const inside = normalize(isAbsolute(path) ? relative(root, path) : path)
      if (leadsOut(inside) || inside === '.') refused.push(`a claimed file is outside the task root: ${show(path)}`)
      else if (isPrivate(inside)) refused.push(`a claimed file is in Bellwether's own folder: ${show(path)}`)
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
    const command = valid(commandLine, item)
    return command === undefined ? (valid(verifyShape, item) ?? []) : [{ command }]
  })
  return { commands, invalid: list.length - commands.length }
}

/** The names of the checks that the task selects; `invalid` counts entries that are not names. */
function ownChecks(task: Task): { readonly names: readonly string[]; readonly invalid: number } {
  const own = task.fields['checks']
  const list = Array.isArray(own) ? (own as unknown[]) : own === undefined || own === null ? [] : [own]
  const names = list.slice(0, commandsMax).flatMap((item) => valid(roleName, item) ?? [])
  return { names, invalid: list.length - names.length }
}

const checkNamed = ({ checks }: Pick<AcceptancePolicy, 'checks'>, name: string) =>
  Object.hasOwn(checks, name) ? checks[name] : undefined

/** Throws if a task selects a check that the policy does not define. */
export function mustKnowChecks(policy: Pick<AcceptancePolicy, 'checks'>, names: readonly string[] | undefined): void {
  for (const name of names ?? []) {
    if (checkNamed(policy, name.trim().toLowerCase()) !== undefined) continue
    const known = Object.keys(policy.checks)
    throw new InvalidInput(`Unknown check ${show(name)}.`, {
      code: 'unknown_check',
      hint:
        known.length === 0
          ? `Define it under "checks" in ${acceptanceFile.path}.`
          : `Use one of ${known.slice(0, 20).join(', ')}, or define it under "checks" in ${acceptanceFile.path}.`,
    })
  }
}

/** The commands a task must pass: those of its role, its checks (`checks`), then its own (`verify`). */
export function commandsFor(policy: AcceptancePolicy, task: Task): readonly VerifyCommand[] {
  const checks = ownChecks(task).names.flatMap((check) => {
    const known = checkNamed(policy, check)
    if (known === undefined) return []
    const { description: _about, ...command } = known
    return [{ ...command, check }]
  })
  const own = ownCommands(task).commands.map((one) => ({ ...one, isOwn: true }))
  const all = [...requirementsFor(policy, roleOf(task)).commands, ...checks, ...own]
  return all.map((one) => ({ ...one, timeoutSec: one.timeoutSec ?? policy.commandTimeoutSec }))
}

export const commandText = (command: string | readonly string[]) =>
  (typeof command === 'string' ? command : command.join(' ')).slice(0, 500)

/** What messages and records call a command: a check by its name. */
export const labelOf = ({ command, check }: VerifyCommand) =>
  check === undefined ? commandText(command) : `check "${check}"`

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
  readonly failedFiles: FailedFile[]
  readonly failedChecks: FailedCheck[]
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
  const tally: Tally = {
    failures: [...findings.claims.refused],
    failedFiles: [],
    failedChecks: [],
    waiting: [],
    files: [],
    commands: [],
    fields: [],
  }
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
  const problems = { files: tally.failedFiles, checks: tally.failedChecks }
  // A certain failure does not wait for the remaining files; missing evidence does.
  if (failures.length > 0) return { verdict: 'incomplete_output', reasons: failures, evidence, problems }
  if (waiting.length > 0)
    return { verdict: 'wait', reasons: waiting, overdue: (findings.waitedMs ?? 0) >= policy.maxWaitSec * 1_000 }
  const reasons = unmetRequirements(required, evidence)
  return reasons.length > 0
    ? { verdict: 'incomplete_output', reasons, evidence, problems }
    : { verdict: 'done', evidence }
}

function missingWords(words: readonly string[], deliverable: Deliverable | null): string | null {
  const text = JSON.stringify(deliverable ?? '').toLowerCase()
  return words.length === 0 || words.some((word) => text.includes(word.toLowerCase()))
    ? null
    : `the deliverable contains none of: ${words.slice(0, 10).join(', ')}`
}

function weighFiles(
  { failures, failedFiles, waiting, files }: Tally,
  required: Requirements,
  findings: Findings,
): void {
  const seen = new Map(findings.files.map((file) => [file.path, file]))
  for (const path of findings.claims.files) {
    const file = seen.get(path)
    if (file === undefined || file.found === 'not_ready') waiting.push(`${path} cannot be inspected yet`)
    else {
      const { size, sha256, from } = file
      const fault = fileFault(file, required)
      if (fault !== null) {
        failures.push(`${path} ${fault}`)
        failedFiles.push({ path, problem: fault })
      } else files.push({ path, ...defined({ size, sha256, from }) })
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
  { failures, failedChecks, commands }: Tally,
  policy: AcceptancePolicy,
  task: Task,
  results: readonly CommandResult[],
): void {
  const { invalid } = ownCommands(task)
  if (invalid > 0) failures.push(`the task has ${plural(invalid, 'invalid verify command')}`)
  const checks = ownChecks(task)
  if (checks.invalid > 0) failures.push(`the task has ${plural(checks.invalid, 'invalid check name')}`)
  for (const name of checks.names)
    if (checkNamed(policy, name) === undefined)
      failures.push(`check "${name}" is not defined in ${acceptanceFile.path}`)
  commandsFor(policy, task).forEach((one, index) => {
    const result = results[index]
    const command = labelOf(one)
    if (result === undefined) failures.push(`verify command did not run: ${command}`)
    else if (result.exitCode === 0 && !result.timedOut)
      commands.push({ command, exitCode: 0, durationMs: result.durationMs })
    else {
      const { exitCode, durationMs, output } = result
      failures.push(`verify command ${howFailed(result)}: ${command}`)
      const note = result.isSandboxed === true ? sandboxNote(one) : null
      failedChecks.push({ check: command, problem: howFailed(result), exitCode, durationMs, output, note })
    }
  })
}

/** What a command in the sandbox did not have, and how it runs without one. */
function sandboxNote({ check, isOwn }: VerifyCommand): string {
  const none = '"sandbox": "none"'
  const remedy =
    check !== undefined
      ? `add ${none} to check "${check}" in ${acceptanceFile.path}`
      : isOwn === true
        ? `define it under "checks" in ${acceptanceFile.path} with ${none}, and select it by its name (--check)`
        : `add ${none} to this command in ${acceptanceFile.path}`
  return `It ran in a sandbox, without Docker, the ports of this machine and the home folder. If it needs them, ${remedy}.`
}

export function howFailed(result: CommandResult): string {
  if (result.timedOut) return `took longer than ${Math.round(result.durationMs)} ms`
  if (result.failure !== undefined) return `could not start (${result.failure})`
  return result.exitCode === null ? `was killed by ${result.signal ?? 'a signal'}` : `exited with ${result.exitCode}`
}

function unmetRequirements(required: Requirements, { files, commands, fields }: EvidenceRecord): string[] {
  const reasons: string[] = []
  if (files.length < required.minFiles)
    reasons.push(`${plural(required.minFiles, 'file')} required, ${files.length} found`)
  if (commands.length < required.minCommands)
    reasons.push(`${plural(required.minCommands, 'passing verify command')} required, ${commands.length} passed`)
  const pieces = files.length + commands.length + (required.fieldsCount ? fields.length : 0)
  if (pieces < required.minEvidence)
    reasons.push(
      `done without evidence: ${plural(required.minEvidence, 'written file or passing check', 'written files or passing checks')} required, ${pieces} found`,
    )
  return reasons
}
