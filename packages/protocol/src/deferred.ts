/**
 * zod for the contract, with schemas that are built when they are first used. A process uses few of the 3,000 schemas of the routes, and none of
 * its responses: built at once, they cost a server 5 MB and 50 ms of CPU. A mistake in a definition shows when the schema is built; the
 * OpenAPI description builds all. zod itself never sees a deferred schema, so parsing is as fast as without this file.
 */
import { z as zod } from 'zod'

/** A call that makes a schema: of zod, or of a method of another schema. */
interface Call {
  readonly on: object
  readonly method: string
  readonly args: readonly unknown[]
  built?: object
}

/** Names the call of a deferred schema, also one of another copy of this module. */
const callOf = Symbol.for('bellwether.schema.call')
const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

/** Methods that make another schema of a schema. All others, and all properties, need the schema itself. */
const chained = new Set(
  `array default describe extend extract finite int max meta min nonnegative nullable nullish omit optional partial pick pipe positive readonly
  refine regex required strict superRefine transform trim unwrap`.split(/\s+/),
)

const objects = new Set(['object', 'strictObject', 'looseObject'])

/** The schema itself, for functions of zod that compare schemas or look them up, such as `toJSONSchema`. */
export function built<Schema>(schema: Schema): Schema {
  const call = isObject(schema) ? (schema as { readonly [callOf]?: Call })[callOf] : undefined
  if (call === undefined) return schema
  if (call.built === undefined) {
    const on = built(call.on) as Readonly<Record<string, (...args: readonly unknown[]) => object>>
    call.built = on[call.method]!(...call.args.map(builtInside))
  }
  return call.built as Schema
}

/** Schemas are arguments, or are in a shape or a list of options. */
function builtInside(value: unknown): unknown {
  if (!isObject(value)) return value
  if (Array.isArray(value)) return value.map(builtInside)
  if (callOf in value || Object.getPrototypeOf(value) !== Object.prototype) return built(value)
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, builtInside(inner)]))
}

/** The schemas in an object's shape, deferred too. */
function shapeOf({ on, method, args }: Call): object | undefined {
  if (method === 'extend') return { ...(on as { shape: object }).shape, ...(args[0] as object) }
  return objects.has(method) ? (args[0] as object) : undefined
}

const handler: ProxyHandler<Call> = {
  get(call, name, self) {
    if (name === callOf) return call
    if (typeof name === 'string' && chained.has(name))
      return (...args: readonly unknown[]) => defer({ on: self as object, method: name, args })
    const shape = name === 'shape' ? shapeOf(call) : undefined
    if (shape !== undefined) return shape
    const schema = built(self as object)
    const value: unknown = Reflect.get(schema, name, schema)
    return typeof value === 'function' ? (value.bind(schema) as unknown) : value
  },
  has: (_call, name) => name === callOf || name === '_zod',
}

const defer = (call: Call): object => new Proxy(call, handler)

const deferring = <Namespace extends object>(namespace: Namespace): Namespace =>
  new Proxy(namespace, {
    get(_target, name) {
      const value: unknown = Reflect.get(namespace, name)
      if (name === 'iso') return deferring(value as object)
      if (name === 'lazy')
        return (inner: () => object) => defer({ on: namespace, method: 'lazy', args: [() => built(inner())] })
      return typeof value === 'function'
        ? (...args: readonly unknown[]) => defer({ on: namespace, method: String(name), args })
        : value
    },
  })

export const z = deferring(zod)
export declare namespace z {
  type infer<Schema> = zod.infer<Schema>
  type input<Schema> = zod.input<Schema>
  type output<Schema> = zod.output<Schema>
  type RefinementCtx<T = unknown> = zod.RefinementCtx<T>
  type ZodObject = zod.ZodObject
  type ZodType<Output = unknown, Input = unknown> = zod.ZodType<Output, Input>
}
