/** `task watch`: follows the events of the board, or of one task, from local files or a server. */
import { join } from 'node:path'
import { defined, linkAbort, systemClock } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { EventOf } from '@bellwether/protocol/http'
import type { Command } from 'commander'
import { openFeed } from '../../../board/log/feed.js'
import type { TaskEvent } from '../../../board/log/task.js'
import type { Client } from '../../../client/client.js'
import { plain } from '../../../client/sanitize.js'
import { untilInterrupted } from '../../shared/interrupt.js'
import { asStream, printLine, printOutage } from '../../shared/output.js'
import { jsonLines } from '../../shared/options.js'
import { wholeNumber } from './queries.js'
import { aboutOf } from './task-text.js'
import { boardServer, onRoot, withCommon, type CommonFlags } from './root.js'

export function watchCommand(task: Command, finish: (code: number) => void): void {
  withCommon(task.command('watch [id]'))
    .description('follow the events of the board; with an id, of one task until it is done or needs a person')
    .addOption(jsonLines())
    .option('--since <cursor>', 'start after this cursor (0: from the beginning; default: now)', wholeNumber)
    .option('--once', 'print the existing events and exit')
    .action(async (id: string | undefined, typed: WatchFlags) => {
      if (id !== undefined) return finish(await watchOne(id, typed))
      const all: object[] = []
      // With --once the output has an end, so it can be one object.
      const isOneObject = typed.once === true && typed.json === true
      const flags = isOneObject ? typed : { ...typed, ...asStream(typed) }
      const printed = (event: TaskEvent, cursor: number) =>
        isOneObject ? all.push({ cursor, ...event }) : printEvent(flags, event, cursor)
      const server = await boardServer(flags)
      if (server !== undefined) return watchServer(server, flags)
      const stop = new AbortController()
      // The reader closed the pipe.
      const closed = () => stop.abort()
      process.stdout.on('error', closed)
      try {
        await untilInterrupted((interrupted) => {
          const signal = linkAbort(interrupted, stop.signal)
          return onRoot(flags, 'read', async ({ board, disk }) => {
            const feed = await openFeed(join(board.root, 'state', 'tasks.jsonl'), disk)
            try {
              let cursor: number | null = flags.since ?? (flags.once === true ? 0 : null)
              while (!signal.signal.aborted) {
                const page = await feed.since(cursor)
                if (page.reset) process.stderr.write('the log was replaced; showing it from the start:\n')
                const first = page.cursor - page.events.length
                page.events.forEach((event, at) => printed(event, first + at + 1))
                cursor = page.cursor
                if (page.more) continue
                if (flags.once === true) {
                  if (isOneObject) printLine({ events: all, cursor })
                  break
                }
                await systemClock.sleep(pollMs, signal.signal)
              }
            } finally {
              signal.release()
              await feed.close()
            }
          })
        })
      } finally {
        process.stdout.off('error', closed)
      }
    })
}

async function watchOne(id: string, flags: WatchFlags): Promise<number> {
  const { inFiles, onServer, watchTask } = await import('./watch-task.js')
  const each = (event: PrintedEvent) => printEvent({ json: flags.jsonl === true }, event)
  const server = await boardServer(flags)
  if (server !== undefined) return watchTask(onServer(server, id), flags, each)
  return onRoot(flags, 'read', (opened) => watchTask(inFiles(opened, id), flags, each))
}

interface WatchFlags extends CommonFlags {
  readonly since?: number
  readonly once?: boolean
  readonly jsonl?: boolean
}

async function watchServer(server: Client, flags: WatchFlags): Promise<void> {
  if (flags.once === true)
    throw new InvalidInput('--once and --server cannot be combined: a server keeps sending events.', {
      code: 'contradicting_options',
      hint: 'Omit --once, or use local files.',
    })
  await untilInterrupted(async (signal) => {
    const after = flags.since === undefined ? undefined : String(flags.since)
    for await (const { id, event, data } of server.follow('GET /board/events', {
      signal,
      after,
      onOutage: printOutage,
    })) {
      if (event === 'reset') process.stderr.write('the log was replaced; showing it from the start:\n')
      else if ('eventId' in data) printEvent(flags, data, Number(id ?? 0))
    }
  })
}

// Fast enough for a person; each poll costs one stat of the log.
const pollMs = 250

type PrintedEvent = TaskEvent | EventOf<'GET /board/events', '*'>

function printEvent(flags: CommonFlags, event: PrintedEvent, cursor?: number): void {
  if (flags.json === true) return printLine({ ...defined({ cursor }), ...event })
  const about = aboutOf(event)
  const words = [event.at.slice(0, 19).replace('T', ' '), event.messageType.padEnd(9), event.taskId, event.type]
  process.stdout.write(`${plain(`${words.join('  ')} by ${event.actor}${about === '' ? '' : `: ${about}`}`)}\n`)
}
