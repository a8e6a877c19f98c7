import { describe, expect, it } from 'vitest'
import { HealthRegistry, deriveHealth, unitKey, type Unit } from './health.js'

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
    [...deriveHealth(new Map(units.map((one) => [unitKey(one), one])))].map(([key, one]) => [key, one.effective]),
  )

describe('failure cascade', () => {
  const sensor = (more: { source?: object; sender?: object; pipe?: object } = {}) => [
    unit('source', 'fs', more.source),
    unit('sender', 'http', more.sender),
    unit('sensor_pipe', 'one', { dependsOn: ['source:fs', 'sender:http'], ...more.pipe }),
    unit('sensor_pipe', 'two', { dependsOn: ['source:fs', 'sender:http'] }),
  ]

  it('[V5.3] the failure of one pipe does not affect another pipe', () => {
    expect(effective(...sensor({ pipe: failed }))).toMatchObject({
      'sensor_pipe:one': 'failed',
      'sensor_pipe:two': 'ok',
    })
  })

  it('[V5.3] a failed source or sender fails all pipes of its sensor', () => {
    for (const more of [{ source: failed }, { sender: failed }])
      expect(effective(...sensor(more))).toMatchObject({ 'sensor_pipe:one': 'failed', 'sensor_pipe:two': 'failed' })
  })

  const server = (receiver: object, first: object) => [
    unit('receiver', 'http', receiver),
    unit('fusion_pipe', 'a', { dependsOn: ['receiver:http'], ...first }),
    unit('fusion_pipe', 'b', { dependsOn: ['receiver:http'] }),
    unit('view', 'live', { dependsOn: ['fusion_pipe:a'], live: true }),
    unit('view', 'persistent', { dependsOn: ['fusion_pipe:a'] }),
    unit('view', 'other', { dependsOn: ['fusion_pipe:b'], live: true }),
  ]

  it('[V5.3] a failed receiver fails all fusion pipes', () => {
    expect(effective(...server(failed, {}))).toMatchObject({ 'fusion_pipe:a': 'failed', 'fusion_pipe:b': 'failed' })
  })

  it('[V5.3] a failed fusion pipe makes its live view unavailable, leaves its persistent view readable and other views ok', () => {
    expect(effective(...server({}, failed))).toEqual({
      'receiver:http': 'ok',
      'fusion_pipe:a': 'failed',
      'fusion_pipe:b': 'ok',
      'view:live': 'failed',
      'view:persistent': 'degraded',
      'view:other': 'ok',
    })
  })

  it('[V5.3] a derived failure names the unit that failed', () => {
    const units = server({}, failed)
    const derived = deriveHealth(new Map(units.map((one) => [unitKey(one), one])))
    expect(derived.get('view:live')?.because).toBe('fusion_pipe:a')
    expect(derived.get('fusion_pipe:a')?.because).toBeUndefined()
  })
})

describe('the health registry', () => {
  it('[V5.4] reports each change once and counts restarts and changes', () => {
    const changes: string[] = []
    const registry = new HealthRegistry(({ unit: key, from, to }) => changes.push(`${key} ${from} → ${to}`))
    registry.put(unit('receiver', 'http'))
    registry.put(unit('fusion_pipe', 'p', { dependsOn: ['receiver:http'] }))
    registry.put(unit('fusion_pipe', 'p', { dependsOn: ['receiver:http'] }))
    expect(changes).toEqual([])
    registry.fail('receiver:http', 'no socket')
    expect(changes).toEqual(['receiver:http ok → failed', 'fusion_pipe:p ok → failed'])
    registry.recover('receiver:http')
    registry.recover('receiver:http')
    expect(changes.slice(2)).toEqual(['receiver:http failed → ok', 'fusion_pipe:p failed → ok'])
    expect(registry.summary()).toEqual({ status: 'ok', units: 2, restarts: 1, changes: 4, troubled: {} })
  })

  it('[V5.4] drops the units of a sensor whose session ended', () => {
    const registry = new HealthRegistry(() => undefined)
    registry.put(unit('source', 'x', failed))
    expect(registry.summary()).toMatchObject({ status: 'failed', troubled: { 'source:x': 'failed' } })
    registry.drop('source:x')
    expect(registry.summary()).toMatchObject({ status: 'ok', units: 0 })
  })
})
