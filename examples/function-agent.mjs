/**
 * A function agent: the smallest program with Bellwether. It opens a database, defines an agent as a function, runs a worker in
 * this process, and waits for the deliverable of one turn.
 */
import * as bellwether from 'bellwether'

const bw = await bellwether.open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
await bw.agents.define('greeter', (turn) => `Hello! You asked: ${turn.instruction}`)
await bw.worker()

const deliverable = await bw.turns.run('greeter', 'Good morning')
console.log(deliverable.text)
await bw.close()
