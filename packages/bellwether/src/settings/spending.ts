/** Parses `limits` and `time_zone` of [spending]. Pure; each error names the key, the value and what is expected. */
import { InvalidInput } from '@bellwether/protocol'
import { defined } from '@bellwether/base'

export interface SpendingLimit {
  readonly scope: 'project' | 'agent' | 'model'
  /** Absent: every project, each with its own count. */
  readonly name?: string
  readonly period: 'day' | 'month'
  readonly tokens?: number
  readonly costMicros?: number
}

const form = 'SCOPE [NAME] PERIOD AMOUNT, for example "project day 50 usd" or "agent coder month 20000000 tokens"'
const item =
  /^(?:(?<scope>project)(?: (?<project>[a-z0-9_-]{1,120}))??|(?<named>agent|model) (?<name>\S{1,200})) (?<period>day|month) (?<amount>\d+(?:\.\d+)?) (?<unit>usd|tokens)$/
const amountMax = 1e12

/** One limit per scope, name and period; its tokens and its money may be two items. */
export function readSpendingLimits(text: string): SpendingLimit[] {
  const limits = new Map<string, SpendingLimit>()
  for (const one of text.split(',').map((part) => part.trim().replaceAll(/\s+/g, ' '))) {
    if (one === '') continue
    const groups = item.exec(one)?.groups
    if (groups === undefined)
      throw invalid(`"limits" in [spending] of bellwether.toml must be a list of ${form} (got "${one}")`)
    const { scope, project, named, name, period, amount, unit } = groups
    const micros = Math.round(Number(amount) * (unit === 'usd' ? 1e6 : 1))
    if (micros <= 0 || micros > amountMax || (unit === 'tokens' && !Number.isInteger(Number(amount))))
      throw invalid(
        `"limits" in [spending] of bellwether.toml: the amount of "${one}" must be a whole number of tokens, or US dollars, above 0 and at most ${amountMax / 1e6} million`,
      )
    const key = [scope ?? named, project ?? name, period].join(' ')
    const known = limits.get(key)
    const kind = unit === 'usd' ? 'costMicros' : 'tokens'
    if (known?.[kind] !== undefined)
      throw invalid(`"limits" in [spending] of bellwether.toml names "${key}" twice in ${unit}`)
    limits.set(key, {
      ...defined({ name: project ?? name }),
      ...known,
      scope: (scope ?? named) as SpendingLimit['scope'],
      period: period as SpendingLimit['period'],
      [kind]: micros,
    })
  }
  return [...limits.values()]
}

export function readTimeZone(name: string): string {
  // The default needs no `Intl`, which costs a process 6 MB.
  if (name === 'UTC') return name
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw invalid(
      `"time_zone" in [spending] of bellwether.toml must be the name of a time zone, for example Europe/Berlin (got "${name}")`,
    )
  }
}

const invalid = (message: string) =>
  new InvalidInput(message, {
    code: 'invalid_spending',
    hint: 'fix the value, or remove the key. See docs/how-to/limit-spending.md',
  })
