/**
 * A budget: the turn may use 100 tokens. The agent reserves tokens before each call of its (imagined) model and commits what the
 * call used; when the kernel refuses a reservation, the turn ends as failed with `budget_exceeded`.
 */
import { open, TurnFailed } from 'bellwether'

const bw = await open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
await bw.agents.define('spender', async (turn) => {
  for (let call = 1; ; call += 1) {
    const reservationId = turn.newId()
    const { what } = await turn.reserve({ reservationId, tokens: 40 })
    if (what === 'exceeded')
      return { deliver: { text: `stopped before call ${call}` }, status: 'failed', error: 'budget_exceeded' }
    await turn.commit({ reservationId, tokens: 40 })
  }
})
await bw.worker()

try {
  await bw.turns.run('spender', 'Spend.', { budget: { tokens: 100 } })
} catch (error) {
  if (!(error instanceof TurnFailed)) throw error
  console.log(`${error.code}: ${error.turn.deliverable.text}`)
}
await bw.close()
