import { describe, expect, it } from 'vitest'
import { HealthBook, judge, unitKey, type Unit } from './health.js'

const unit = (kind: Unit['kind'], name: string, more: Partial<Unit> = {}): Unit => ({
  kind,
  name,
  state: 'ok',
  restarts: 0,
  error: undefined,
  dependsOn: [],
  ...more,
})
const failed = { state: 'failed' } as const

const effective = (...units: readonly Unit[]) =>
  Object.fromEntries(
    [...judge(new Map(units.map((one) => [unitKey(one), one])))].map(([key, one]) => [key, one.effective]),
  )

describe('failures spread', () => {
  const sensor = (more: { source?: object; sender?: object; pipe?: object } = {}) => [
    unit('source', 'fs', more.source),
    unit('sender', 'http', more.sender),
    unit('sensor_pipe', 'one', { dependsOn: ['source:fs', 'sender:http'], ...more.pipe }),
    unit('sensor_pipe', 'two', { dependsOn: ['source:fs', 'sender:http'] }),
  ]

  it('[V5.3] not from a pipe to another pipe', () => {
    expect(effective(...sensor({ pipe: failed }))).toMatchObject({
      'sensor_pipe:one': 'failed',
      'sensor_pipe:two': 'ok',
    })
  })

  it('[V5.3] from a source or a sender to all its pipes', () => {
    for (const more of [{ source: failed }, { sender: failed }])
      expect(effective(...sensor(more))).toMatchObject({ 'sensor_pipe:one': 'failed', 'sensor_pipe:two': 'failed' })
  })

  const server = (receiver: object, first: object) => [
    unit('receiver', 'http', receiver),
    unit('fusion_pipe', 'a', { dependsOn: ['receiver:http'], ...first }),
    unit('fusion_pipe', 'b', { dependsOn: ['receiver:http'] }),
    unit('view', 'live', { dependsOn: ['fusion_pipe:a'], live: true }),
    unit('view', 'kept', { dependsOn: ['fusion_pipe:a'] }),
    unit('view', 'other', { dependsOn: ['fusion_pipe:b'], live: true }),
  ]

  it('[V5.3] from the receiver to all fusion pipes', () => {
    expect(effective(...server(failed, {}))).toMatchObject({ 'fusion_pipe:a': 'failed', 'fusion_pipe:b': 'failed' })
  })

  it('[V5.3] from a fusion pipe to its views: a live one is unavailable, another stays readable, others are untouched', () => {
    expect(effective(...server({}, failed))).toEqual({
      'receiver:http': 'ok',
      'fusion_pipe:a': 'failed',
      'fusion_pipe:b': 'ok',
      'view:live': 'failed',
      'view:kept': 'degraded',
      'view:other': 'ok',
    })
  })

  it('[V5.3] and say whose failure it is', () => {
    const units = server({}, failed)
    const judged = judge(new Map(units.map((one) => [unitKey(one), one])))
    expect(judged.get('view:live')?.because).toBe('fusion_pipe:a')
    expect(judged.get('fusion_pipe:a')?.because).toBeUndefined()
  })
})

describe('the book', () => {
  it('[V5.4] tells each change once, and counts restarts and changes', () => {
    const told: string[] = []
    const book = new HealthBook(({ unit: key, from, to }) => told.push(`${key} ${from} → ${to}`))
    book.put(unit('receiver', 'http'))
    book.put(unit('fusion_pipe', 'p', { dependsOn: ['receiver:http'] }))
    book.put(unit('fusion_pipe', 'p', { dependsOn: ['receiver:http'] }))
    expect(told).toEqual([])
    book.fail('receiver:http', 'no socket')
    expect(told).toEqual(['receiver:http ok → failed', 'fusion_pipe:p ok → failed'])
    book.recover('receiver:http')
    book.recover('receiver:http')
    expect(told.slice(2)).toEqual(['receiver:http failed → ok', 'fusion_pipe:p failed → ok'])
    expect(book.summary()).toEqual({ status: 'ok', units: 2, restarts: 1, changes: 4, troubled: {} })
  })

  it('[V5.4] forgets the units of a sensor that is gone', () => {
    const book = new HealthBook(() => undefined)
    book.put(unit('source', 'x', failed))
    expect(book.summary()).toMatchObject({ status: 'failed', troubled: { 'source:x': 'failed' } })
    book.drop('source:x')
    expect(book.summary()).toMatchObject({ status: 'ok', units: 0 })
  })
})
