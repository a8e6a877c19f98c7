/** A log that records its lines. */
import type { Log } from '@bellwether/base'

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly fields: Record<string, unknown>
  readonly message: string
}

export function recordedLog(): { readonly log: Log; readonly lines: LogLine[] } {
  const lines: LogLine[] = []
  const write = (level: LogLine['level']) => (fields: object, message: string) =>
    void lines.push({ level, fields: fields as Record<string, unknown>, message })
  return { log: { info: write('info'), warn: write('warn'), error: write('error') }, lines }
}
