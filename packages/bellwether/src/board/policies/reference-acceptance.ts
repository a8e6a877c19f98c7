/**
 * Translates config/acceptance-policy.json of the reference (`global`, `requireAny`, `verifyCommands`) into the board's form. Pure. A
 * key that has no meaning here is an error that names it.
 */
import { defined, isObject, type JsonObject, objectOf } from '@bellwether/base'
import {
  either,
  flag,
  list,
  mapped,
  number,
  oneOf,
  optional,
  partial,
  strictObject,
  text,
  unknown,
  type ValueOf,
} from '../../settings/shape.js'
import type { acceptanceShape } from './acceptance-policy.js'
import { bounds, nameMap } from './shape.js'

// `0` means no timeout there; here every command has one.
const longestSec = 86_400
const commandsMax = 50

const command = either(
  text({ min: 1 }),
  strictObject({
    cmd: text({ min: 1 }),
    expectExitCode: optional(bounds.count(0, 255)),
    timeoutSec: optional(number(0, longestSec)),
  }),
)
const rules = partial(
  strictObject({
    requireEvidence: flag,
    requireAny: list(text({ min: 1, max: 200 }), 0, 100),
    verifyCommands: list(command, 0, commandsMax),
  }),
)
const shape = partial(
  strictObject({
    version: unknown,
    global: strictObject({
      ...rules.fields,
      evidenceMode: optional(oneOf(['hard'])),
      evidenceTimeoutSec: optional(bounds.seconds(0)),
      verifyTimeoutSec: optional(number(0, longestSec)),
    }),
    roles: nameMap(rules),
  }),
)

const ruleKeys = Object.keys(rules.fields)

export const isReferenceAcceptance = (file: JsonObject): boolean =>
  Object.hasOwn(file, 'global') ||
  Object.values(objectOf(file['roles'])).some(
    (role) => isObject(role) && ruleKeys.some((key) => key !== 'requireAny' && Object.hasOwn(role, key)),
  )

type Rules = ValueOf<typeof rules>

function translate({ requireEvidence, requireAny, verifyCommands }: Rules, inherited: Rules['verifyCommands'] = []) {
  const all = [...inherited, ...(verifyCommands ?? [])]
  return defined({
    minEvidence: requireEvidence === undefined ? undefined : requireEvidence ? 1 : 0,
    requireAny,
    commands: verifyCommands === undefined ? undefined : all.map(commandOf),
  })
}

function commandOf(one: ValueOf<typeof command>) {
  if (typeof one === 'string') return { command: one }
  const { cmd, expectExitCode = 0, timeoutSec } = one
  return {
    command: expectExitCode === 0 ? cmd : `{ ${cmd}\n}; test $? -eq ${expectExitCode}`,
    ...defined({ timeoutSec: timeoutSec === 0 ? longestSec : timeoutSec }),
  }
}

export const referenceAcceptanceShape = mapped(
  shape,
  ({ global = {}, roles = {} }): ValueOf<typeof acceptanceShape> => {
    const { evidenceTimeoutSec, verifyTimeoutSec } = global
    const ofRoles = Object.entries(roles).map(([name, role]) => [name, translate(role, global.verifyCommands)] as const)
    return defined({
      default: translate(global),
      roles: Object.fromEntries(ofRoles),
      maxWaitSec: evidenceTimeoutSec === 0 ? undefined : evidenceTimeoutSec,
      commandTimeoutSec: verifyTimeoutSec === 0 ? longestSec : verifyTimeoutSec,
    })
  },
)
