/** Quiet hours: the part of each day in which only urgent messages are sent. Pure. */
import { Terminal } from '@bellwether/protocol'

export interface QuietHours {
  isQuiet(ms: number): boolean
  /** Kinds of messages that are sent anyway. */
  readonly urgent: readonly string[]
}

export interface QuietSettings {
  readonly quiet_hours?: string | undefined
  readonly quiet_time_zone: string
  readonly urgent_kinds: string
}

const minutesOf = (hours: string | undefined, minutes: string | undefined) => Number(hours) * 60 + Number(minutes)

/** Undefined: there are none. Throws if a value is invalid. */
export function openQuietHours(settings: QuietSettings): QuietHours | undefined {
  const { quiet_hours: text, quiet_time_zone: zone } = settings
  if (text === undefined) return undefined
  const time = '([01]?\\d|2[0-3]):([0-5]\\d)'
  const [, h1, m1, h2, m2] = new RegExp(`^${time}\\s*-\\s*${time}$`).exec(text.trim()) ?? []
  const [from, to] = [minutesOf(h1, m1), minutesOf(h2, m2)]
  if (h1 === undefined || from === to) throw wrong('quiet_hours', text, 'quiet_hours = "22:00-07:00"')
  const format = formatOf(zone)
  return {
    urgent: settings.urgent_kinds.split(',').flatMap((kind) => (kind.trim() === '' ? [] : [kind.trim()])),
    isQuiet(ms) {
      const [hours, minutes] = format.format(new Date(ms)).split(':')
      const at = minutesOf(hours, minutes)
      // Over midnight: from the evening on, and until the morning.
      return from < to ? at >= from && at < to : at >= from || at < to
    },
  }
}

function formatOf(zone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  } catch (error) {
    if (error instanceof RangeError) throw wrong('quiet_time_zone', zone, 'quiet_time_zone = "Europe/Berlin"')
    throw error
  }
}

const wrong = (key: string, value: string, example: string) =>
  new Terminal(`Invalid ${key}: ${JSON.stringify(value)}`, {
    code: 'bad_quiet_hours',
    hint: `Fix ${key} in [notify] of bellwether.toml, for example ${example}.`,
  })
