/**
 * A writer for contest.ts: increments a number on the board, each write decided on the state it reads. Prints the
 * acknowledged event ids to stdout, one per line. Ends when stdin closes.
 */
import { systemClock, systemRandom } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { openBoard } from '../../../src/board/log/board.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { quietLog } from '../../support/quiet-log.js'

const [root, name, ttlMs, graceMs] = process.argv.slice(2)
let going = true
process.stdin.on('end', () => (going = false)).resume()

const board = await openBoard({
  root: root!,
  owner: name!,
  clock: systemClock,
  ids: uuidv7(systemClock, systemRandom),
  log: quietLog,
  lockTtlMs: Number(ttlMs),
  lockGraceMs: Number(graceMs),
})
process.stdout.write('ready\n')
while (going) {
  try {
    const [event] = await board.write((state) => {
      const count = state.tasks.get('counter')?.fields['count']
      const payload = { count: typeof count === 'number' ? count + 1 : 1 }
      return [{ taskId: 'counter', type: 'task_noted', actor: name!, payload }]
    })
    process.stdout.write(`${event!.eventId}\n`)
  } catch (error) {
    // Contention or a lost lock: nothing was acknowledged, so retry.
    if (!(error instanceof Retryable)) throw error
  }
}
await board.close()
