/**
 * An MCP client: starts `bellwether mcp`, lists its tools, and runs a turn with the tool `run_turn`, as a desktop assistant or a
 * coding agent would. It needs a running server (BELLWETHER_SERVER, BELLWETHER_KEY) on the same database.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { open } from 'bellwether'

const bw = await open(process.env.DATABASE_URL)
await bw.agents.define('greeter', (turn) => `Hello! You asked: ${turn.instruction}`)
await bw.worker()

const client = new Client({ name: 'example', version: '1' })
await client.connect(
  new StdioClientTransport({ command: 'bellwether', args: ['mcp', '--project', bw.project], env: process.env }),
)
const { tools } = await client.listTools()
console.log(`${tools.length} tools, run_turn among them: ${tools.some((tool) => tool.name === 'run_turn')}`)
const answer = await client.callTool({ name: 'run_turn', arguments: { agent: 'greeter', instruction: 'Good morning' } })
console.log(answer.content.map((part) => part.text).join('\n'))
await client.close()
await bw.close()
