/**
 * A person: the agent asks a question and suspends, for seconds or for days. The question is listed here and on the dashboard
 * under "Needs you"; this program answers it as the person.
 */
import { open } from 'bellwether'

const bw = await open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
await bw.agents.define('publisher', (turn) => {
  const [answer] = turn.results
  if (answer !== undefined) return answer.result === 'yes' ? 'published' : 'kept back'
  const args = { question: `Publish "${turn.instruction}"?`, choices: ['yes', 'no'] }
  const call = { toolCallId: turn.newId(), toolName: 'ask_person', args, hostedBy: 'people', timeoutSeconds: 3600 }
  return { suspend: { calls: [call] } }
})
await bw.worker()

const events = bw.events()
const { id } = await bw.turns.start('publisher', 'The evening edition')
for await (const _event of events) {
  const question = (await bw.toolCalls.questions()).find((one) => one.agent_turn_id === id)
  if (question === undefined) continue
  console.log(question.arguments.question)
  await bw.toolCalls.answer(question.tool_call_id, 'yes')
  break
}
console.log((await bw.turns.wait(id)).deliverable.text)
await bw.close()
