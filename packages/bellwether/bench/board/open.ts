/** A child process of the board benchmark: opens a root once and prints wall and CPU time. */
import { systemClock, systemRandom } from '@bellwether/base'
import { openBoard } from '../../src/board/log/board.js'
import { uuidv7 } from '../../src/ports/ids.js'

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }
const cpuMs = () => (process.cpuUsage().user + process.cpuUsage().system) / 1_000
const [began, cpu] = [performance.now(), cpuMs()]
const ids = uuidv7(systemClock, systemRandom)
const board = await openBoard({ root: process.argv[2]!, owner: 'bench', clock: systemClock, ids, log: quiet })
const { eventCount, tasks } = board.state
const result = { ms: performance.now() - began, cpuMs: cpuMs() - cpu, events: eventCount, tasks: tasks.size }
await board.close()
process.stdout.write(`${JSON.stringify({ ...result, rssMb: process.memoryUsage().rss / 2 ** 20 })}\n`)
