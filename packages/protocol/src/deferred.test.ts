import { types } from 'node:util'
import { expect, it } from 'vitest'
import { z as zod } from 'zod'
import { built, z } from './deferred.js'
import { routes, type Route } from './http/index.js'

it('makes the schemas that zod makes', () => {
  const make = (from: typeof zod) => {
    const base = from.object({ name: from.string().min(2).describe('a name'), tags: from.array(from.enum(['a', 'b'])) })
    const tree: zod.ZodType = from
      .strictObject({
        ...base.shape,
        at: from.iso.datetime().nullable(),
        children: from.lazy(() => from.array(tree)).optional(),
      })
      .meta({ id: 'Tree' })
    const pair = base
      .extend({ size: from.string().transform(Number).pipe(from.number().int().max(9)) })
      .omit({ tags: true })
    return from.object({ tree, pair: pair.nullable(), one: from.union([from.literal(1), from.null()]) })
  }
  const tree = { name: 'ab', tags: ['a'], at: null }
  const good = { tree: { ...tree, children: [tree] }, pair: { name: 'cd', size: '7' }, one: 1 }
  const wrong = {
    tree: { ...tree, children: [{ ...tree, name: 'x', more: 1 }] },
    pair: { name: 'cd', size: '70' },
    one: 2,
  }
  const [ours, theirs] = [make(z), make(zod)]
  expect(ours.parse(good)).toEqual({ ...good, pair: { name: 'cd', size: 7 } })
  expect(ours.safeParse(wrong).error?.issues).toEqual(theirs.safeParse(wrong).error?.issues)
  const described = { io: 'input', unrepresentable: 'any' } as const
  expect(zod.toJSONSchema(built(ours), described)).toEqual(zod.toJSONSchema(theirs, described))
})

it('builds a schema once, when it is used, and shows a mistake then', () => {
  const name = z.string()
  expect(built(name)).toBe(built(name))
  expect(built(z.object({ name })).shape.name).toBe(built(name))
  const wrong = z.object({ name }).omit({ other: true } as never)
  expect(() => wrong.parse({})).toThrow('other')
})

it('hands zod no deferred schema, which would be built again with each use', () => {
  const seen = new Set<object>()
  const deferred = new Set<string>()
  const parts = Object.entries(routes as Readonly<Record<string, Route>>).flatMap(([key, route]) =>
    [
      route.params,
      route.query,
      route.body,
      ...Object.values(route.responses),
      ...Object.values(route.events ?? {}),
    ].map((part) => ({ key, part: typeof part === 'object' ? built(part) : undefined })),
  )
  function look(key: string, value: unknown): void {
    if (typeof value !== 'object' || value === null || seen.has(value)) return
    seen.add(value)
    if (types.isProxy(value)) deferred.add(key)
    if (value instanceof zod.ZodType) look(key, value.def)
    else for (const inner of Object.values(value)) look(key, inner)
  }
  for (const { key, part } of parts) look(key, part)
  expect([...deferred]).toEqual([])
  expect(seen.size).toBeGreaterThan(1_000)
})
