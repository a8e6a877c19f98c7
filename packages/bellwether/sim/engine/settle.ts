/**
 * Waits until nothing moves: the running statement waits at a gate, has returned, or is blocked by another fibre. `pg_blocking_pids` decides what
 * is blocked, never elapsed time: real time only decides when to check. A blocked backend is frozen (SIGSTOP), because PostgreSQL wakes several
 * waiters of a row at once and lets them race; so only one backend runs at any time. Locks of other sessions are waited for.
 */
import { systemClock } from '@bellwether/base'
import type { Control } from './control.js'
import type { Strand } from './strand.js'

// Most steps finish within this time; checking earlier would only slow them down.
const patienceMs = 0.4
// No statement of a simulation takes longer.
const hungMs = 30_000

/** Lets JavaScript run until it waits for the engine, and sockets be read. */
const turnOfTheLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export async function settle(strands: readonly Strand[], control: Control): Promise<void> {
  const began = systemClock.monotonicMs()
  await turnOfTheLoop()
  for (let runner = running(strands); runner !== undefined; runner = running(strands)) {
    const checkAtMs = systemClock.monotonicMs() + patienceMs
    while (running(strands) !== undefined && systemClock.monotonicMs() < checkAtMs) await turnOfTheLoop()
    if (running(strands) === undefined) break
    const by = (await control.blockers([runner.wire.pid])).get(runner.wire.pid) ?? []
    // The result may be older than an arrival that was read in the meantime.
    if (running(strands) === runner && by.length > 0 && by.every((pid) => isFibre(pid, strands))) runner.block(by)
    if (systemClock.monotonicMs() - began > hungMs)
      throw new Error(`Fibre ${runner.name} does not finish "${runner.flight?.label ?? ''}"`)
  }
  await lookAtBlocked(strands, control)
  for (const strand of strands) {
    if (!strand.alive || strand.flight?.state !== 'arrived') continue
    const { deliver } = strand.flight
    strand.flight = undefined
    deliver()
    await turnOfTheLoop()
  }
}

async function lookAtBlocked(strands: readonly Strand[], control: Control): Promise<void> {
  const blocked = strands.filter(({ alive, flight }) => alive && flight?.state === 'blocked')
  if (blocked.length === 0) return
  const blockers = await control.blockers(blocked.map(({ wire }) => wire.pid))
  for (const { flight, wire } of blocked) {
    flight!.by = blockers.get(wire.pid) ?? []
    if (flight!.by.length === 0) flight!.state = 'granted'
  }
}

/** At most one: a statement starts only when its fibre is chosen. */
function running(strands: readonly Strand[]): Strand | undefined {
  return strands.find(({ alive, flight }) => alive && flight?.state === 'running')
}

function isFibre(pid: number, strands: readonly Strand[]): boolean {
  return strands.some((strand) => strand.alive && strand.connected && strand.wire.pid === pid)
}

/** A cycle of fibres that wait for each other, in order; empty if there is none. */
export function deadlock(strands: readonly Strand[]): Strand[] {
  const living = strands.filter(({ alive, connected }) => alive && connected)
  const byPid = new Map(living.map((strand) => [strand.wire.pid, strand]))
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
  for (const strand of living) {
    const ring = follow(strand, [])
    if (ring.length > 0) return ring
  }
  return []
}
