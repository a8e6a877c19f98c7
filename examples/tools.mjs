/**
 * Tools with suspension: the agent suspends on two tool calls and holds no process while it waits. Bellwether calls the function
 * again with the results, on this worker or, after a crash, on another one.
 */
import { defineTool, open } from 'bellwether'

const price = defineTool({
  name: 'price',
  description: 'Returns the price of an article in cents.',
  parameters: { type: 'object', required: ['article'], properties: { article: { type: 'string' } } },
  idempotent: true,
  run: async ({ article }) => ({ cents: article.length * 100 }),
})

const bw = await open(process.env.DATABASE_URL ?? { embedded: '.bellwether/examples' })
await bw.agents.define('clerk', (turn) => {
  if (turn.results.length === 0) {
    const articles = turn.instruction.split(', ')
    const calls = articles.map((article) => ({ toolCallId: turn.newId(), toolName: 'price', args: { article } }))
    return { suspend: { calls } }
  }
  return `${turn.results.reduce((sum, { result }) => sum + result.cents, 0)} cents`
})
await bw.worker({ tools: [price] })

console.log((await bw.turns.run('clerk', 'apple, pear')).text)
await bw.close()
