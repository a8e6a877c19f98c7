import { expect, it } from 'vitest'
import { trendsCsv } from './trends.js'

const names = (...series: string[]) =>
  trendsCsv(
    ['2027-01-01T00:00:00.000Z'],
    [{ chart: 'cost_by_model', unit: 'micros', series: series.map((name) => ({ name, values: [1] })) }],
  )
    .split('\r\n')
    .slice(1, -1)
    .map((line) => line.slice('cost_by_model,'.length, -',micros,2027-01-01T00:00:00.000Z,1'.length))

it('no name of a model is a formula of a spreadsheet, whichever character separates its cells', () => {
  expect(names('=cmd()', '+1', '-1', '@sum', '\t=1', '\n=1', ' =1', '＝1', '＋1', '－1', '＠sum')).toEqual([
    "'=cmd()",
    "'+1",
    "'-1",
    "'@sum",
    "' =1",
    "' =1",
    "' =1",
    "'＝1",
    "'＋1",
    "'－1",
    "'＠sum",
  ])
  expect(names('a;=1', 'a|@b', 'a,-1')).toEqual(["a;'=1", "a|'@b", `"a,'-1"`])
  expect(names('gpt-5+', 'a/b@2', 'x=1')).toEqual(['gpt-5+', 'a/b@2', 'x=1'])
})

it('a name stays in its cell and in its line, and sends nothing to a terminal', () => {
  expect(names('a "b", c', 'a\r\nb', '\u001b[31mred\u009b0m', '(no name)')).toEqual([
    '"a ""b"", c"',
    'a  b',
    ' [31mred 0m',
    '(no name)',
  ])
})

it('a bar without a sample has an empty value', () => {
  const series = [{ name: 'mean', values: [null, 2] }]
  expect(trendsCsv(['a', 'b'], [{ chart: 'queue_depth', unit: 'turns', series }])).toBe(
    'chart,series,unit,starts_at,value\r\nqueue_depth,mean,turns,a,\r\nqueue_depth,mean,turns,b,2\r\n',
  )
})
