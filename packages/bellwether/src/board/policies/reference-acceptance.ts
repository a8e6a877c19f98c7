/**
 * Translates config/acceptance-policy.json of the reference (`global`, `requireAny`, `verifyCommands`) into the board's form. Pure. A
 * key that has no meaning here is an error that names it.
 */
import { defined } from '@bellwether/base'
import { z } from 'zod'
import { isObject, type JsonObject } from '../log/json.js'
import type { acceptanceShape } from './acceptance.js'
import { bounds, nameMap } from './shape.js'

// `0` means no timeout there; here every command has one.
const longestSec = 86_400
const commandsMax = 50

const command = z.union([
  z.string().min(1),
  z.strictObject({
    cmd: z.string().min(1),
    expectExitCode: bounds.count(0, 255).optional(),
    timeoutSec: bounds.seconds(0).max(longestSec).optional(),
  }),
])
const rules = z
  .strictObject({
    requireEvidence: z.boolean(),
    requireAny: z.array(z.string().min(1).max(200)).max(100),
    verifyCommands: z.array(command).max(commandsMax),
  })
  .partial()
const shape = z
  .strictObject({
    version: z.unknown(),
    global: rules.extend({
      evidenceMode: z.literal('hard').optional(),
      evidenceTimeoutSec: bounds.seconds(0).optional(),
      verifyTimeoutSec: bounds.seconds(0).max(longestSec).optional(),
    }),
    roles: nameMap(rules),
  })
  .partial()

const ruleKeys = Object.keys(rules.shape)

export const isReferenceAcceptance = (file: JsonObject): boolean =>
  Object.hasOwn(file, 'global') ||
  Object.values(isObject(file['roles']) ? file['roles'] : {}).some(
    (role) => isObject(role) && ruleKeys.some((key) => key !== 'requireAny' && Object.hasOwn(role, key)),
  )

type Rules = z.output<typeof rules>

function translate({ requireEvidence, requireAny, verifyCommands }: Rules, inherited: Rules['verifyCommands'] = []) {
  const all = [...inherited, ...(verifyCommands ?? [])]
  return defined({
    minEvidence: requireEvidence === undefined ? undefined : requireEvidence ? 1 : 0,
    requireAny,
    commands: verifyCommands === undefined ? undefined : all.map(commandOf),
  })
}

function commandOf(one: z.output<typeof command>) {
  if (typeof one === 'string') return { command: one }
  const { cmd, expectExitCode = 0, timeoutSec } = one
  return {
    command: expectExitCode === 0 ? cmd : `{ ${cmd}\n}; test $? -eq ${expectExitCode}`,
    ...defined({ timeoutSec: timeoutSec === 0 ? longestSec : timeoutSec }),
  }
}

export const referenceAcceptanceShape = shape.transform(
  ({ global = {}, roles = {} }): z.output<typeof acceptanceShape> => {
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
