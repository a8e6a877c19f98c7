/**
 * Checks the arguments of a call against the tool's JSON schema and reports problems so that a model can fix them. Accepted
 * arguments can be stored; compiled schemas are cached within a limit; patterns of a foreign schema are never executed.
 */
import { createRequire } from 'node:module'
import { Script } from 'node:vm'
import { errorMessage, isDeeper, isObject, parseJson } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type * as Draft07 from 'ajv'
import type { ErrorObject, Options, ValidateFunction } from 'ajv'
import type * as Draft2019 from 'ajv/dist/2019.js'
import type * as Draft2020 from 'ajv/dist/2020.js'
import { storable } from '../../kernel/content.js'

// Enough for the content of a source file; larger data belongs in a file whose name is passed.
const argumentsMaxBytes = 262_144
const depthMax = 32
// Honest checks take microseconds and honest schemas compile in milliseconds; the worker does nothing else at that time.
const schemaMaxMs = 1_000
// A few hundred tools are in use at a time; a compiled schema takes about 50 KB.
const compiledMax = 500
// As many problems as a model can fix at once.
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

export function checkArguments(args: unknown, shape: Shape): Checked {
  const value = fromText(args)
  if (value === undefined) return refuse('invalid_json', 'the arguments are not valid JSON. Pass one JSON object')
  if (!isObject(value)) return refuse('invalid_arguments', `the arguments must be a JSON object, not ${kindOf(value)}`)
  if (isDeeper(value, depthMax))
    return refuse('arguments_too_deep', `the arguments are nested more than ${depthMax} levels deep. Flatten them`)
  try {
    storable(value, 'the arguments', argumentsMaxBytes)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return refuse(error.code, `${error.message}${error.hint === undefined ? '' : `: ${error.hint}`}`)
  }
  const validate = compiled(shape)
  if (validate === undefined) return { args: value as Arguments }
  const isValid = shape.foreign === true ? inTime(() => validate(value)) : validate(value)
  if (isValid === undefined)
    return refuse('invalid_arguments', 'the schema of the tool takes too long to check the arguments')
  if (isValid) return { args: value as Arguments }
  return refuse('invalid_arguments', messageOf(validate.errors ?? []))
}

const call = new Script('run()')

/** Undefined: it took too long, and was ended. The references of a schema can take exponential time, to check and to compile. */
function inTime<T>(run: () => T): T | undefined {
  try {
    return call.runInNewContext({ run }, { timeout: schemaMaxMs }) as T
  } catch (error) {
    // The error comes from another context, where Error is another class.
    if ((error as { readonly code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return undefined
    throw error
  }
}

/** Throws if the schema of a declared tool is invalid. */
export function checkSchema(parameters: Arguments): void {
  if (typeof parameters['type'] === 'string' && parameters['type'] !== 'object') {
    throw new InvalidInput('the parameters of a tool must be an object schema: {"type": "object", "properties": …}', {
      code: 'invalid_schema',
    })
  }
  try {
    const valid = new (ajv().Ajv)({ strict: false, logger: false })
    if (parameters['$schema'] === undefined && valid.validateSchema(parameters) !== true)
      throw new Error(valid.errorsText(valid.errors))
    if (inTime(() => compile({ parameters })) === undefined) throw new Error('it takes too long to compile')
  } catch (error) {
    throw new InvalidInput(`the schema of the parameters is invalid: ${errorMessage(error)}`, {
      code: 'invalid_schema',
      cause: error,
    })
  }
}

/** Models sometimes pass their arguments as JSON text. */
function fromText(args: unknown): unknown {
  if (args === undefined || args === null) return {}
  if (typeof args !== 'string') return args
  if (args.trim() === '') return {}
  return parseJson(args) // undefined: the caller refuses the call with `invalid_json`
}

const cache = new Map<string, ValidateFunction | undefined>()
/** The number of cached schemas. */
export const cachedSchemas = () => cache.size

/** Undefined if the schema cannot be compiled; then the tool's host has to check the arguments. */
function compiled(shape: Shape): ValidateFunction | undefined {
  const key = `${shape.foreign === true ? 'f' : 'o'}${JSON.stringify(shape.parameters)}`
  if (cache.has(key)) {
    const found = cache.get(key)
    // Most recently used last.
    cache.delete(key)
    cache.set(key, found)
    return found
  }
  let compiled: ValidateFunction | undefined
  try {
    compiled = shape.foreign === true ? inTime(() => compile(shape)) : compile(shape)
  } catch {
    compiled = undefined // own schemas are checked on declaration; a foreign server checks for itself
  }
  cache.set(key, compiled)
  for (const oldest of cache.keys()) {
    if (cache.size <= compiledMax) break
    cache.delete(oldest)
  }
  return compiled
}

/** The library has 100 files: the first schema loads it, because most projects declare no tool. */
const load = createRequire(import.meta.url)
const ajv = () => load('ajv') as typeof Draft07
const ajv2019 = () => load('ajv/dist/2019.js') as typeof Draft2019
const ajv2020 = () => load('ajv/dist/2020.js') as typeof Draft2020

/** One validator per schema: in a shared one, ids would collide and no schema could be evicted. */
function compile({ parameters, foreign = false }: Shape): ValidateFunction {
  const options: Options = {
    strict: false,
    allErrors: true,
    validateFormats: false,
    // Compiling the meta schema takes a hundred times as long as compiling one schema.
    meta: false,
    validateSchema: false,
    logger: false,
    // A copy per reference would make the code as large as the square of the schema.
    inlineRefs: false,
    ...(foreign ? { code: { regExp: acceptAll } } : {}),
  }
  // The check of an asynchronous schema is a promise: it would accept everything, and end the process when it rejects.
  const { $schema, $async: _asynchronous, ...rest } = parameters
  const schema = { type: 'object', ...rest }
  if (typeof $schema === 'string' && $schema.includes('2020-12'))
    return new (ajv2020().Ajv2020)(options).compile(schema)
  if (typeof $schema === 'string' && $schema.includes('2019-09'))
    return new (ajv2019().Ajv2019)(options).compile(schema)
  return new (ajv().Ajv)(options).compile(schema)
}

/** A malicious pattern can run for hours, so foreign patterns count as matched. */
const acceptAll = Object.assign(() => ({ test: () => true }), { code: 'acceptAll' }) as unknown as NonNullable<
  NonNullable<Options['code']>['regExp']
>

function messageOf(errors: readonly ErrorObject[]): string {
  const problems = [...new Set(errors.map(sentence))]
  const more = problems.length > shownMax ? `; and ${problems.length - shownMax} more` : ''
  return `the arguments are invalid: ${problems.slice(0, shownMax).join('; ')}${more}`
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
      return `"${String(params['additionalProperty'] ?? params['unevaluatedProperty']).slice(0, 80)}" is not a parameter${within}`
    case 'enum':
      return `${what} must be one of ${shown(params['allowedValues'])}`
    case 'const':
      return `${what} must be ${shown(params['allowedValue'])}`
    case 'type':
      return `${what} must be of type ${String(params['type'])}`
    default:
      return `${what} ${message ?? 'is invalid'}`
  }
}

const shown = (value: unknown) => JSON.stringify(value)?.slice(0, 300) ?? 'nothing'
const kindOf = (value: unknown) => (value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`)
