/**
 * Waits until nothing moves: every statement in flight waits at a gate, has come back, or is blocked by another fibre.
 * "Blocked" is what `pg_blocking_pids` says, never how long something took: real time only decides when to look.
 * Results are then handed to their fibres one after the other, in the order of spawn, so that JavaScript is as
 * deterministic as the database. Locks held by strangers are waited out.
 */
import type { Control } from './control.js'
import type { Strand } from './strand.js'

// Most steps arrive within this; looking earlier would only slow them down.
const patienceMs = 0.4
// A statement that runs this long is no step of a simulation.
const hungMs = 30_000

const turnOfTheLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Lets a fibre's JavaScript run until it waits for the engine again. */
export const drain = turnOfTheLoop

export async function settle(strands: readonly Strand[], control: Control): Promise<void> {
  const began = performance.now()
  // Whoever was blocked must be looked at again; it cannot arrive before somebody let it go, so it is not waited for.
  const waiting = new Set(strands.filter(({ flight }) => flight?.state === 'blocked'))
  for (const { flight } of waiting) flight!.state = 'running'
  await drain()
  let agreed = 0
  let last = ''
  for (;;) {
    const look = performance.now() + patienceMs
    while (strands.some((strand) => moving(strand) && !waiting.has(strand)) && performance.now() < look)
      await turnOfTheLoop()
    const left = strands.filter(moving)
    if (left.length === 0) break
    const blockers = await control.blockers(left.map(({ wire }) => wire.pid))
    const still = left.filter(moving)
    const seen = still.map((strand) => [strand.wire.pid, blockers.get(strand.wire.pid) ?? []] as const)
    if (seen.every(([, by]) => by.length > 0 && by.every((pid) => isFibre(pid, strands)))) {
      // The list is not read at one instant: a chain of n waiters is certain after n equal answers.
      const text = JSON.stringify(seen)
      agreed = text === last ? agreed + 1 : 1
      last = text
      if (agreed >= still.length) {
        for (const strand of still)
          Object.assign(strand.flight!, { state: 'blocked', by: blockers.get(strand.wire.pid) })
        break
      }
    } else {
      last = ''
      waiting.clear()
    }
    if (performance.now() - began > hungMs) throw new Error(`no end of ${still.map(describe).join(', ')}`)
  }
  for (const strand of strands) {
    if (strand.flight?.state !== 'arrived') continue
    const { deliver } = strand.flight
    strand.flight = undefined
    if (!strand.alive) continue
    deliver()
    await drain()
  }
}

function moving(strand: Strand): boolean {
  return strand.alive && strand.flight?.state === 'running'
}

function isFibre(pid: number, strands: readonly Strand[]): boolean {
  return strands.some((strand) => strand.alive && strand.connected && strand.wire.pid === pid)
}

function describe({ name, flight }: Strand): string {
  return `${name} in "${flight?.label ?? ''}"`
}

/** Fibres that wait for each other in a ring, in its order; empty when there is none. */
export function deadlock(strands: readonly Strand[]): Strand[] {
  const byPid = new Map(
    strands.filter(({ alive, connected }) => alive && connected).map((strand) => [strand.wire.pid, strand]),
  )
  const follow = (strand: Strand, path: readonly Strand[]): Strand[] => {
    const at = path.indexOf(strand)
    if (at >= 0) return path.slice(at)
    if (strand.flight?.state !== 'blocked') return []
    for (const pid of strand.flight.by) {
      const next = byPid.get(pid)
      const ring = next === undefined ? [] : follow(next, [...path, strand])
      if (ring.length > 0) return ring
    }
    return []
  }
  for (const strand of strands) {
    const ring = follow(strand, [])
    if (ring.length > 0) return ring
  }
  return []
}
