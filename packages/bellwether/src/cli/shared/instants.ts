/** Reads the times of --since and --until: a span before now, or an instant. Turns them into the bounds of a request. */
import { systemClock } from '@bellwether/base'
import { InvalidArgumentError, Option } from 'commander'

const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/** Milliseconds since 1970. An instant without a zone is in UTC, as all times that commands print. */
function instantMs(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text.trim()) ?? []
  if (count !== undefined) return systemClock.wallMs() - Number(count) * units[unit]!
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const time = text.replace(' ', 'T')
    const at = Date.parse(/T.*(?:Z|[+-]\d\d:?\d\d)$/.test(time) || !time.includes('T') ? time : `${time}Z`)
    if (!Number.isNaN(at)) return at
  }
  throw new InvalidArgumentError(
    'It must be a span such as 90s, 10m, 2h or 3d, or a UTC time such as 2026-11-18T09:30.',
  )
}

/** Bounds of a list as options give them: instants in milliseconds, and dollars. */
export interface BoundFlags {
  readonly since?: number
  readonly until?: number
  readonly minCost?: number
}

/** The same bounds as a request has them. */
export function boundsOf({ since, until, minCost }: BoundFlags) {
  const timeOf = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString())
  const micros = minCost === undefined ? undefined : Math.ceil(minCost * 1_000_000)
  return { since: timeOf(since), until: timeOf(until), min_cost_micros: micros }
}

export const sinceOption = (what: string) =>
  new Option('-S, --since <time>', `only ${what} since then: 10m, 2h, 3d, or a UTC time`).argParser(instantMs)
export const untilOption = (what: string) =>
  new Option('--until <time>', `only ${what} before then, in the same forms as --since`).argParser(instantMs)
