import { describe, expect, it } from 'vitest'
import { settingRows } from './schema.js'
import { lineOf } from './toml.js'
import { editDistance, nearest, similar } from './nearest.js'

describe('setting rows', () => {
  it('[W4.1] describe every setting, with bounds for every number and a unit in every duration', () => {
    const rows = settingRows()
    expect(rows.length).toBeGreaterThan(30)
    const numbers = rows.filter((row) => row.type === 'number' || row.type === 'integer')
    const offenders = {
      description: rows.filter((row) => !/^[A-Z].*\.$/.test(row.description)),
      // Without a default no port is opened, and the server alone decides the timeout of a sensor's session.
      bounds: numbers.filter(
        (row) =>
          row.min === undefined ||
          row.max === undefined ||
          (row.default === undefined && row.key !== 'metrics_port' && row.section !== 'sensor'),
      ),
      unit: rows.filter((row) => row.type === 'number' && !row.key.endsWith('_seconds')),
      positive: numbers.filter((row) => !row.key.endsWith('port') && !((row.min ?? 0) > 0)),
    }
    expect(offenders).toEqual({ description: [], bounds: [], unit: [], positive: [] })
    expect(rows.find((row) => row.key === 'port')).toEqual({
      section: 'server',
      key: 'port',
      type: 'integer',
      default: 7717,
      min: 0,
      max: 65_535,
      description: 'The port to listen on; 0 picks a free one.',
    })
  })
})

describe('nearest name', () => {
  it('counts a swap of neighbours as one edit', () => {
    expect([editDistance('abc', 'acb'), editDistance('', 'abc'), editDistance('kitten', 'sitting')]).toEqual([1, 3, 3])
  })
  it('prefers the typed section at equal distance and finds a key in the wrong section', () => {
    const names = ['pmo.watchdog_interval_seconds', 'worker.watchdog_interval_seconds', 'worker.beat_seconds']
    expect(nearest('worker.watchdog_intervall_seconds', names)).toBe('worker.watchdog_interval_seconds')
    expect(nearest('pmo.beat_seconds', names)).toBe('worker.beat_seconds')
  })
})

describe('similar name', () => {
  it('is the nearest one, unless more than half of the typed name would have to change', () => {
    const names = ['coder', 'greeter', 'slow']
    expect(
      ['codr', 'greter', 'slwo', 'sl', 'slo', 'brokn', 'greeting', ''].map((name) => similar(name, names)),
    ).toEqual(['coder', 'greeter', 'slow', undefined, 'slow', undefined, 'greeter', undefined])
    expect(similar('x', [])).toBeUndefined()
  })
})

describe('line of a key', () => {
  it('the line of a key is found in tables, dotted and quoted keys, and not inside multi-line strings', () => {
    const text = [
      'a = """',
      'b = 1',
      '"""',
      'x."y" = 2',
      '[ "t" ] # c',
      "'b' = 3",
      'c.d = 4',
      'e = { f = 1, g = 2 }',
    ].join('\n')
    expect(['a', 'x.y', 't', 't.b', 't.c.d', 't.c', 't.e.g', 't.zz', 'none'].map((path) => lineOf(text, path))).toEqual(
      [1, 4, 5, 6, 7, 7, 8, 5, undefined],
    )
  })
})
