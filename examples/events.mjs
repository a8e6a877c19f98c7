/**
 * Events: prints what happens to a turn, in order and without gaps. Store the cursor of the last event that you handled and pass
 * it as `after` to continue there after a restart.
 */
import { open } from 'bellwether'

const bw = await open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
await bw.agents.define('greeter', async (turn) => {
  await turn.activity('thinking')
  return 'hello'
})
await bw.worker()

const events = bw.events()
const { id } = await bw.turns.start('greeter', 'Good morning')
let cursor
for await (const event of events) {
  if (event.turnId !== id) continue
  console.log(event.kind, event.payload.status)
  cursor = event.cursor
  if (event.kind === 'task') break
}
console.log(cursor === undefined ? 'no event' : 'continue later after the last cursor')
await bw.close()
