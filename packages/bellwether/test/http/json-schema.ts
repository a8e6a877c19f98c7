/** Whether a value is what a JSON schema says, as far as our own description uses the language; and has no field that it does not name. */
export interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: JsonSchema | boolean
  readonly items?: JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
}

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value === 'object' ? 'object' : typeof value

/** What is wrong with it, each with its place. */
export function wrongIn(value: unknown, schema: JsonSchema, at = '$'): string[] {
  if (schema.anyOf !== undefined) {
    const tries = schema.anyOf.map((one) => wrongIn(value, one, at))
    return tries.some((one) => one.length === 0) ? [] : tries.toSorted((a, b) => b.length - a.length)[0]!
  }
  const kind = kindOf(value)
  const kinds = schema.type === undefined ? [kind] : [schema.type].flat()
  if (!kinds.includes(kind) && !(kind === 'number' && kinds.includes('integer') && Number.isInteger(value)))
    return [`${at} is ${kind}, not ${kinds.join(' or ')}`]
  if (schema.enum !== undefined && !schema.enum.includes(value)) return [`${at} is ${JSON.stringify(value)}`]
  if (schema.const !== undefined && schema.const !== value) return [`${at} is ${JSON.stringify(value)}`]
  if (Array.isArray(value))
    return schema.items === undefined ? [] : value.flatMap((one, i) => wrongIn(one, schema.items!, `${at}[${i}]`))
  return kind === 'object' ? wrongFields(value as Readonly<Record<string, unknown>>, schema, at) : []
}

function wrongFields(value: Readonly<Record<string, unknown>>, schema: JsonSchema, at: string): string[] {
  const { properties, required = [], additionalProperties: others } = schema
  const missing = required.filter((name) => !Object.hasOwn(value, name)).map((name) => `${at}.${name} is missing`)
  const wrong = Object.entries(value).flatMap(([name, inner]) => {
    const known = properties?.[name]
    if (known !== undefined) return wrongIn(inner, known, `${at}.${name}`)
    if (properties !== undefined) return [`${at}.${name} is not described`]
    return typeof others === 'object' ? wrongIn(inner, others, `${at}.${name}`) : []
  })
  return [...missing, ...wrong]
}
