/**
 * Polls until Ctrl-C: on a terminal it repaints the screen, elsewhere it prints each changed part. While the server is unavailable it
 * reports that once and keeps trying. The caller decides what is read and printed.
 */
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { untilInterrupted } from './interrupt.js'
import { openScreen } from './live.js'
import { printOutage } from './output.js'
import { plain } from '../../client/sanitize.js'

interface WatchOptions<Found, Part> {
  readonly clock: Clock
  readonly read: () => Promise<Found>
  readonly paint: (found: Found) => string
  readonly parts: (found: Found) => ReadonlyMap<string, Part>
  readonly print: (part: Part) => void
}

// Looks live to a person, and the server answers in a few milliseconds.
const everyMs = 1_000

export async function watchChanges<Found, Part>(options: WatchOptions<Found, Part>): Promise<void> {
  const { clock, read, paint, parts, print } = options
  // Before the screen opens, so that an error of the call itself stays visible.
  let found = await read()
  const screen = openScreen()
  try {
    await untilInterrupted(async (signal) => {
      let printed = new Map<string, string>()
      let away = false
      while (!signal.aborted) {
        if (screen !== undefined) screen.paint(paint(found))
        else printed = printChanged(parts(found), printed, print)
        await clock.sleep(everyMs, signal)
        try {
          found = await read()
          away = false
        } catch (error) {
          if (!(error instanceof Retryable)) throw error
          if (screen !== undefined) screen.paint(`${plain(error.message)}; retrying\n\n${paint(found)}`)
          else if (!away) printOutage(error)
          away = true
        }
      }
    })
  } finally {
    screen?.close()
  }
}

function printChanged<Part>(
  now: ReadonlyMap<string, Part>,
  before: ReadonlyMap<string, string>,
  print: (part: Part) => void,
): Map<string, string> {
  const printed = new Map<string, string>()
  for (const [name, part] of now) {
    const json = JSON.stringify(part)
    printed.set(name, json)
    if (before.get(name) !== json) print(part)
  }
  return printed
}
