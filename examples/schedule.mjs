/**
 * A schedule: a loop that starts one turn per period. The correlation id names the period, so any number of copies of this
 * program, restarted at any time, start each period's turn once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'bellwether'

// 5 s, so that you see three periods; a real schedule has longer ones.
const periodMs = Number(process.env.PERIOD_MS ?? 5_000)
const periods = Number(process.env.PERIODS ?? 3)

const bw = await open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
await bw.agents.define('reporter', (turn) => `report for ${turn.instruction}`)
await bw.worker()

for (let done = 0; done < periods; done += 1) {
  const period = Math.floor(Date.now() / periodMs)
  const correlationId = `report-${period}`
  const first = await bw.turns.start('reporter', `period ${period}`, { correlationId })
  const second = await bw.turns.start('reporter', `period ${period}`, { correlationId })
  const { outcome } = await bw.turns.wait(first.id)
  console.log(`${outcome}, started once: ${first.id === second.id && second.duplicate}`)
  await sleep((period + 1) * periodMs - Date.now())
}
await bw.close()
