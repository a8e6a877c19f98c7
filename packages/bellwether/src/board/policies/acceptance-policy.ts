/** The acceptance policy: which evidence a task needs to be done, per role, and the checks that tasks select by name. */
import {
  either,
  flag,
  list,
  number,
  oneOf,
  optional,
  partial,
  strictObject,
  text,
  type ValueOf,
} from '../../settings/shape.js'
import { bounds, nameMap, type PolicyFile } from './shape.js'

// A longer list belongs into a script.
export const commandsMax = 50

// A shell command line, or a program with its arguments without a shell.
export const commandLine = either(list(text({ max: 8_192 }), 1, 256), text({ min: 1, max: 8_192 }))
const commandFields = {
  command: commandLine,
  timeoutSec: optional(number(0.1, 86_400)),
  /** Inside the task root; default: the root. */
  cwd: optional(text({ min: 1, max: 4_096 })),
  /** Default: the setting worker.sandbox. */
  sandbox: optional(oneOf(['workspace', 'none'])),
}
export const verifyShape = strictObject(commandFields)
export type VerifyCommand = ValueOf<typeof verifyShape> & {
  readonly timeoutSec: number
  /** The name of the check that defines it. */
  readonly check?: string
  /** The task defines it, not the policy. */
  readonly isOwn?: boolean
}

/** A check that tasks select by name. Only the policy file says what it runs. */
const checkShape = strictObject({ ...commandFields, description: optional(text({ max: 500 })) })

/** The evidence that a role requires. */
const requirements = strictObject({
  /** Pieces of evidence of any kind: files found, commands passed, and fields if `fieldsCount`. */
  minEvidence: bounds.count(0, 1_000),
  minFiles: bounds.count(0, 1_000),
  minFileBytes: bounds.count(0),
  /** Files must have changed since the run started: older files prove nothing. */
  filesMustChange: flag,
  /** Fields of the deliverable that must not be empty. */
  fields: list(text({ min: 1, max: 200 }), 0, 100),
  /** Whether fields count as evidence, for roles that create no files. */
  fieldsCount: flag,
  /** The deliverable must contain one of these words, case-insensitively; empty: none is needed. */
  requireAny: list(text({ min: 1, max: 200 }), 0, 100),
  commands: list(verifyShape, 0, commandsMax),
  minCommands: bounds.count(0, commandsMax),
})
export type Requirements = ValueOf<typeof requirements>

const variableName = text({
  accepts: (name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name),
  wanted: 'the name of an environment variable',
})

const policyShape = strictObject({
  default: requirements,
  roles: nameMap(partial(requirements)),
  commandTimeoutSec: number(0.1, 86_400),
  /** How long to wait for files that cannot be inspected yet before a person is asked. */
  maxWaitSec: bounds.seconds(0),
  /** Checks by name. */
  checks: nameMap(checkShape),
  /** Additional environment variables that verify commands may see. */
  environment: list(variableName, 0, 100),
})
export type AcceptancePolicy = ValueOf<typeof policyShape>
export const acceptanceShape = partial(strictObject({ ...policyShape.fields, default: partial(requirements) }))

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
  checks: {},
  environment: [],
}

export const acceptanceFile: PolicyFile<AcceptancePolicy> = {
  path: 'config/acceptance-policy.json',
  shape: acceptanceShape,
  defaults: defaultAcceptance,
  about: 'Which evidence a task needs to be done, by role; and "checks", the commands that tasks select by name.',
}
