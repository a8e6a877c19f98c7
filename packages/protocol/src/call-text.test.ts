import { expect, it } from 'vitest'
import { callLines } from './call-text.js'

const text = (args: Readonly<Record<string, unknown>>) => callLines(args).map(({ mark, text }) => `${mark} ${text}`)

it('shows a command in full, with every other argument', () => {
  expect(text({ command: 'rm -rf build\necho', timeout: 5 })).toEqual(['$ rm -rf build', '$ echo', '  timeout: 5'])
})

it('shows the change of a file as a diff', () => {
  expect(text({ file_path: 'a.ts', old_string: 'x\ny', new_string: 'z' })).toEqual(['  a.ts', '- x', '- y', '+ z'])
  expect(text({ file_path: 'a.ts', content: 'one\ntwo' })).toEqual(['  a.ts', '+ one', '+ two'])
})

it('shows arguments of any form, also under the names of a file or a command', () => {
  expect(text({ command: ['a'], content: 'c' })).toEqual(['  command: [', '    "a"', '  ]', '  content: "c"'])
  expect(text({})).toEqual([])
})
