import { expect, it } from 'vitest'
import { approvalTools } from './approval-tools.js'
import { resultOf } from './tool-result.js'
import type { Call } from './tool.js'

const approval = (id: string, args: object) => ({ approval_id: id, tool_name: 'Bash', arguments: args })

function setup(...approvals: object[]) {
  const decided: unknown[] = []
  const client = {
    ask: async (route: string, request: unknown) => {
      if (route.startsWith('GET')) return { approvals }
      decided.push(request)
      return { status: 'allowed' }
    },
  }
  const run = (name: string, input: object) =>
    approvalTools.find((tool) => tool.name === name)!.run(input, { client } as never as Call)
  const text = async () => {
    const { content } = resultOf(await run('list_approvals', {}), { bytes: (count) => new Uint8Array(count) })
    return content.map((part) => ('text' in part ? part.text : '')).join('\n')
  }
  return { run, text, decided }
}

it('lists the arguments of a call to their end, and shows characters that change how text looks', async () => {
  const { text } = setup(
    approval('1', { command: `ls ${' '.repeat(5_000)}; rm -rf ~` }),
    approval('2', { a: 'x\u202Ey' }),
  )
  expect(await text()).toContain('; rm -rf ~"')
  expect(await text()).toContain(String.raw`x\u202ey`)
})

it('does not allow a call that is too long to be shown', async () => {
  const { run, text, decided } = setup(
    approval('1', { command: `ls ${'x'.repeat(50_000)}; rm -rf ~` }),
    approval('2', {}),
  )
  expect(await text()).toContain('too long to show here')
  await expect(run('decide_approval', { approval: '1', decision: 'allow' })).rejects.toThrow('too long to show here')
  expect(decided).toEqual([])
  await run('decide_approval', { approval: '1', decision: 'deny' })
  await run('decide_approval', { approval: '2', decision: 'allow' })
  expect(decided).toHaveLength(2)
})
