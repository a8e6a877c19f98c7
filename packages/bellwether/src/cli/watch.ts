/**
 * Looks again and again: on a terminal the whole is painted, elsewhere each part that changed is told. Always: a server that goes away
 * is said once and waited for; Ctrl-C ends it. What is looked at, and how it is told, is the caller's.
 */
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { untilInterrupted } from './interrupt.js'
import { openScreen } from './live.js'
import { plain } from '../client/sanitize.js'

interface Watching<Found, Part> {
  readonly clock: Clock
  readonly look: () => Promise<Found>
  readonly paint: (found: Found) => string
  readonly parts: (found: Found) => ReadonlyMap<string, Part>
  readonly tell: (part: Part) => void
}

// A person sees it as live; the server answers it in a few milliseconds.
const everyMs = 1_000

export async function watchChanges<Found, Part>(watching: Watching<Found, Part>): Promise<void> {
  const { clock, look, paint, parts, tell } = watching
  // Before the screen is taken: what is wrong with the call itself is told on the screen that stays.
  let found = await look()
  const screen = openScreen()
  try {
    await untilInterrupted(async (signal) => {
      let told = new Map<string, string>()
      let away = false
      while (!signal.aborted) {
        if (screen !== undefined) screen.paint(paint(found))
        else told = tellChanged(parts(found), told, tell)
        await clock.sleep(everyMs, signal)
        try {
          found = await look()
          away = false
        } catch (error) {
          if (!(error instanceof Retryable)) throw error
          if (screen !== undefined) screen.paint(`${plain(error.message)}; trying again\n\n${paint(found)}`)
          else if (!away) process.stderr.write(`${plain(error.message)}; trying again\n`)
          away = true
        }
      }
    })
  } finally {
    screen?.close()
  }
}

function tellChanged<Part>(
  now: ReadonlyMap<string, Part>,
  before: ReadonlyMap<string, string>,
  tell: (part: Part) => void,
): Map<string, string> {
  const told = new Map<string, string>()
  for (const [name, part] of now) {
    const written = JSON.stringify(part)
    told.set(name, written)
    if (before.get(name) !== written) tell(part)
  }
  return told
}
