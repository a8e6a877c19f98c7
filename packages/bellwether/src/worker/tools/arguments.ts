/**
 * Checks the arguments of a call against the tool's JSON schema, and says what is wrong in words that a model can act on. Always:
 * what passes can be stored; schemas are compiled once and kept within a bound; a stranger's schema cannot make us run its patterns.
 */
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { storable } from '../../kernel/content.js'

// A file that is written by a tool fits; larger things belong in files that are named.
const argumentsMaxBytes = 262_144
const depthMax = 32
// A few hundred tools are in use at a time; each compiled schema takes some 50 KB.
const compiledMax = 500
// What a model can mend in one go.
const shownMax = 8

export type Arguments = Readonly<Record<string, unknown>>
export type Checked =
  | { readonly args: Arguments }
  | { readonly refuse: { readonly code: string; readonly message: string } }

const refuse = (code: string, message: string): Checked => ({ refuse: { code, message } })

export interface Shape {
  readonly parameters: Arguments
  readonly foreign?: boolean
}

export function checkArguments(given: unknown, shape: Shape): Checked {
  const value = fromText(given)
  if (value === undefined) return refuse('invalid_json', 'the arguments are not JSON: write one JSON object')
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return refuse('invalid_arguments', `the arguments must be a JSON object, and are ${kindOf(value)}`)
  if (isDeeper(value, depthMax))
    return refuse('arguments_too_deep', `the arguments are nested more than ${depthMax} levels deep: flatten them`)
  try {
    storable(value, 'the arguments', argumentsMaxBytes)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return refuse(error.code, `${error.message}${error.hint === undefined ? '' : `: ${error.hint}`}`)
  }
  const validate = compiled(shape)
  if (validate === undefined || validate(value)) return { args: value as Arguments }
  return refuse('invalid_arguments', inWords(validate.errors ?? []))
}

/** Throws when a schema cannot be used: for declarations of one's own, which are told so at once. */
export function checkSchema(parameters: Arguments): void {
  if (typeof parameters['type'] === 'string' && parameters['type'] !== 'object') {
    throw new InvalidInput('the parameters of a tool are an object: {"type": "object", "properties": …}', {
      code: 'invalid_schema',
    })
  }
  try {
    const valid = new Ajv({ strict: false, logger: false })
    if (parameters['$schema'] === undefined && valid.validateSchema(parameters) !== true)
      throw new Error(valid.errorsText(valid.errors))
    compile({ parameters })
  } catch (error) {
    throw new InvalidInput(`the schema of the parameters cannot be used: ${errorMessage(error)}`, {
      code: 'invalid_schema',
      cause: error,
    })
  }
}

/** Models now and then write their arguments as text. */
function fromText(given: unknown): unknown {
  if (given === undefined || given === null) return {}
  if (typeof given !== 'string') return given
  if (given.trim() === '') return {}
  try {
    return JSON.parse(given) as unknown
  } catch {
    return undefined // told to the model by the caller
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels <= 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1))
}

const kept = new Map<string, ValidateFunction | undefined>()
/** How many schemas are held. */
export const keptSchemas = () => kept.size

/** Undefined: the schema is beyond us, and whoever runs the tool has to check. */
function compiled(shape: Shape): ValidateFunction | undefined {
  const key = `${shape.foreign === true ? 'f' : 'o'}${JSON.stringify(shape.parameters)}`
  if (kept.has(key)) {
    const found = kept.get(key)
    // The one that was used last goes last.
    kept.delete(key)
    kept.set(key, found)
    return found
  }
  let made: ValidateFunction | undefined
  try {
    made = compile(shape)
  } catch {
    made = undefined // one's own are refused when they are declared; a stranger's server checks for itself
  }
  kept.set(key, made)
  for (const oldest of kept.keys()) {
    if (kept.size <= compiledMax) break
    kept.delete(oldest)
  }
  return made
}

/** A validator of its own for each schema: their ids would collide in a shared one, and it would never forget any. */
function compile({ parameters, foreign = false }: Shape): ValidateFunction {
  const options: Options = {
    strict: false,
    allErrors: true,
    validateFormats: false,
    // Compiling the schema of schemas takes a hundred times as long as compiling one.
    meta: false,
    validateSchema: false,
    logger: false,
    ...(foreign ? { code: { regExp: unread } } : {}),
  }
  const { $schema, ...rest } = parameters
  const schema = { type: 'object', ...rest }
  if (typeof $schema === 'string' && $schema.includes('2020-12')) return new Ajv2020(options).compile(schema)
  if (typeof $schema === 'string' && $schema.includes('2019-09')) return new Ajv2019(options).compile(schema)
  return new Ajv(options).compile(schema)
}

/** A pattern can take for ever on a text that was made for it: strangers' are taken as met. */
const unread = Object.assign(() => ({ test: () => true }), { code: 'unread' }) as unknown as NonNullable<
  NonNullable<Options['code']>['regExp']
>

function inWords(errors: readonly ErrorObject[]): string {
  const told = [...new Set(errors.map(sentence))]
  const more = told.length > shownMax ? `; and ${told.length - shownMax} more` : ''
  return `the arguments do not fit: ${told.slice(0, shownMax).join('; ')}${more}`
}

function sentence({ instancePath, keyword, params, message }: ErrorObject): string {
  const place = instancePath.slice(1).replaceAll('/', '.')
  const what = place === '' ? 'the arguments' : `"${place.slice(0, 100)}"`
  const within = place === '' ? '' : ` in ${what}`
  switch (keyword) {
    case 'required':
      return `"${String(params['missingProperty'])}" is missing${within}`
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return `there is no "${String(params['additionalProperty'] ?? params['unevaluatedProperty']).slice(0, 80)}"${within}`
    case 'enum':
      return `${what} must be one of ${shown(params['allowedValues'])}`
    case 'const':
      return `${what} must be ${shown(params['allowedValue'])}`
    case 'type':
      return `${what} must be of type ${String(params['type'])}`
    default:
      return `${what} ${message ?? 'does not fit'}`
  }
}

const shown = (value: unknown) => JSON.stringify(value)?.slice(0, 300) ?? 'nothing'
const kindOf = (value: unknown) => (value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`)
