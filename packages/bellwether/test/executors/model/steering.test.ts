/** Messages to the turns of models. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ModelRequest } from '../../../src/ports/model/model.js'
import { project } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { never, openModelSetup, toolboxOf, type ModelSetup } from './model-setup.js'

let b: ModelSetup
let turn = ''
const say = (text: string) =>
  b.t.kernel.say({ projectId: project, agentTurnId: turn, messageId: text, sender: 'rita', text })
beforeAll(async () => {
  b = await openModelSetup({ tools: { look: () => 'seen' }, toolbox: toolboxOf(['look']) })
})
afterAll(() => b.close())

const textsOf = ({ messages }: ModelRequest) =>
  messages.map((message) => ('text' in message ? message.text : 'results')).slice(1)

it('a model sees a message before its next step, once, and answers one that arrives with its last answer', async () => {
  const asked: ModelRequest[] = []
  const model = b.script(async (request, step) => {
    asked.push(request)
    if (step === 0) await say('use the old route')
    if (step === 1) await say('and be brief')
    return step === 0 ? { text: '', calls: [{ name: 'look', args: {} }] } : { text: `answer ${step}` }
  })
  turn = await b.begin({ model })
  const done = await b.ended(turn)
  expect(done).toMatchObject({ outcome: 'success', text: 'answer 2', taskEvents: 1 })
  expect(asked).toHaveLength(3)
  expect(textsOf(asked[0]!).join()).not.toContain('old route')
  expect(textsOf(asked[1]!).at(-1)).toBe('# Message from rita\n\nuse the old route')
  const last = textsOf(asked[2]!)
  expect(last.at(-1)).toBe('# Message from rita\n\nand be brief')
  expect(last.filter((text) => text.includes('old route'))).toHaveLength(1)
})

it('a takeover shows a model a message once that a dead worker had taken', async () => {
  const asked: ModelRequest[] = []
  const model = b.script((request) => {
    asked.push(request)
    return { text: 'done' }
  })
  let hasTaken = false
  const mortal = b.mortal({
    async takeMessages(fence) {
      const taken = await b.t.kernel.takeMessages(fence)
      if (taken.length === 0) return taken
      hasTaken = true
      return never()
    },
  })
  turn = await b.begin({ model })
  await say('only once')
  await mortal.step()
  await until('the dead worker has taken it', async () => hasTaken || undefined)
  await b.reclaimed()
  expect(await b.ended(turn)).toMatchObject({ outcome: 'success', text: 'done' })
  expect(asked.flatMap(textsOf).filter((text) => text.includes('only once'))).toHaveLength(1)
})
